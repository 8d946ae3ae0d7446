//! A relay in front of the server: each piece that a client sends arrives later, as over a long line. What comes back comes at once, and is counted.
//!
//! A request is delayed by a round trip; that a line also has a throughput, and that a connection is made in a round trip of its own, is left out.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Result;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::Instant;

/// A relay that runs in a thread of its own, as long as the process.
#[derive(Debug)]
pub(crate) struct Distance {
    pub(crate) address: SocketAddr,
    counts: Arc<Counts>,
}

/// What came by.
#[derive(Debug, Default)]
struct Counts {
    requests: AtomicU64,
    bytes: AtomicU64,
}

impl Distance {
    /// Starts a relay to `server`.
    pub(crate) fn start(server: SocketAddr, delay: Duration) -> Result<Self> {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let counts = Arc::<Counts>::default();
        let of_thread = Arc::clone(&counts);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        std::thread::Builder::new()
            .name("distance".into())
            .spawn(move || {
                runtime.block_on(async move {
                    let listener = TcpListener::from_std(listener)?;
                    loop {
                        let (client, _) = listener.accept().await?;
                        tokio::spawn(relay(client, server, delay, Arc::clone(&of_thread)));
                    }
                    #[expect(unreachable_code, reason = "it names the type of the errors")]
                    std::io::Result::Ok(())
                })
            })?;
        Ok(Self { address, counts })
    }

    /// Requests for objects, and bytes that came for them, heads of answers included.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let read = |nr: &AtomicU64| nr.load(Ordering::Relaxed);
        (read(&self.counts.requests), read(&self.counts.bytes))
    }
}

/// One connection, until one side ends it.
async fn relay(client: TcpStream, server: SocketAddr, delay: Duration, counts: Arc<Counts>) {
    let Ok(server) = TcpStream::connect(server).await else {
        return;
    };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let there = forth(from_client, to_server, delay, Arc::clone(&counts));
    let back = back(from_server, to_client, counts);
    // An end is an end of the connection.
    tokio::select! {
        _ = there => {}
        _ = back => {}
    }
}

async fn forth(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    delay: Duration,
    counts: Arc<Counts>,
) -> std::io::Result<()> {
    let (sender, mut waiting) = mpsc::channel::<(Instant, Vec<u8>)>(64);
    let read = async move {
        let mut buffer = vec![0; 64 << 10];
        loop {
            let nr = from.read(&mut buffer).await?;
            if nr == 0 {
                return std::io::Result::Ok(());
            }
            // Requests without a body come in one piece.
            if buffer.starts_with(b"GET ") || buffer.starts_with(b"HEAD ") {
                counts.requests.fetch_add(1, Ordering::Relaxed);
            }
            if sender
                .send((Instant::now() + delay, buffer[..nr].to_vec()))
                .await
                .is_err()
            {
                return Ok(());
            }
        }
    };
    let write = async move {
        while let Some((due, bytes)) = waiting.recv().await {
            tokio::time::sleep_until(due).await;
            to.write_all(&bytes).await?;
        }
        std::io::Result::Ok(())
    };
    tokio::try_join!(read, write).map(|_| ())
}

async fn back(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    counts: Arc<Counts>,
) -> std::io::Result<()> {
    let mut buffer = vec![0; 256 << 10];
    loop {
        let nr = from.read(&mut buffer).await?;
        if nr == 0 {
            return Ok(());
        }
        counts.bytes.fetch_add(nr as u64, Ordering::Relaxed);
        to.write_all(&buffer[..nr]).await?;
    }
}
