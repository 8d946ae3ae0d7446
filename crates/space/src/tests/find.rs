use pagewell_frame::{FramePool, Nodes, PoolConfig};

use crate::areas::options::Policy;
use crate::change::fork::ForkMode;
use crate::mm::space::Spaces;
use crate::motion::report::{Engine, Migrated};

/// Frames that a batch does not use are freed, and not kept until the next batch.
#[test]
fn a_batch_takes_as_many_frames_as_it_moves() {
    const PAGE: u64 = 4096;
    let mut config = PoolConfig::new(2048);
    config.nodes = Nodes::Unbound(2);
    let spaces = Spaces::new(FramePool::new(&config).unwrap());
    let space = spaces.space().unwrap();
    let area = space.map(200 * PAGE, Policy::Bind(0)).unwrap();
    let some = [0, 10, 63, 64].map(|page| area.start + page * PAGE);
    let dense = (100..200).map(|page| area.start + page * PAGE);
    for addr in some.into_iter().chain(dense) {
        space.write(addr, b"written").unwrap();
    }
    let first = area.start..area.start + 64 * PAGE;
    for (range, nr) in [(first, 3), (area.start + 100 * PAGE..area.end, 64)] {
        // Pages that are mapped once are moved without a batch.
        let _fork = space.fork_with(ForkMode::Copy).unwrap();
        let free = spaces.pool().stats().nr_available();
        let (mut batch, mut report) = (Vec::new(), Migrated::default());
        let engine = Engine::Batched;
        let mm = &*space.mm;
        mm.find_batch(range, 1, engine, &mut batch, &mut report);
        assert_eq!(batch.len(), nr);
        assert_eq!(spaces.pool().stats().nr_available(), free - nr);
        mm.shared.supply.move_batch(&mut batch, engine, &mut report);
        assert!(batch.iter().all(|page| page.failure().is_none()));
        assert_eq!(spaces.pool().stats().nr_available(), free);
    }
    spaces.verify(&[&space]).unwrap();
}
