//! Test of the whole pool that needs more than the interface of its handles.

use super::FramePool;
use crate::alloc::testing::HOME;
use crate::memory::{Nodes, PoolConfig};
use crate::words::Order;

/// Regression: a thread that had moved spilled cached blocks of its previous node to the new one.
#[test]
fn a_thread_that_moves_to_another_node_leaves_its_cached_blocks_behind() {
    let pool: FramePool = FramePool::new(&PoolConfig {
        nodes: Nodes::Unbound(2),
        ..PoolConfig::new(1 << 16)
    })
    .unwrap();
    let orders = [Order::ZERO, Order::new(1).unwrap(), Order::new(3).unwrap()];
    for home in [0, 1, 0, 1, 1, 0] {
        HOME.set(Some(home));
        for order in orders {
            let blocks: Vec<_> = (0..200).filter_map(|_| pool.alloc(order)).collect();
            assert_eq!(blocks.len(), 200);
            drop(blocks);
            pool.verify().unwrap();
        }
    }
    pool.drain_front_caches();
    assert_eq!(pool.stats().nr_free, 1 << 16);
    pool.verify().unwrap();
}
