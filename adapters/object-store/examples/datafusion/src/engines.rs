//! What the queries run over.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use clap::ValueEnum;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::ListingOptions;
use datafusion::prelude::{SessionConfig, SessionContext};
use object_store::ObjectStore;
use object_store::aws::AmazonS3;
use object_store::local::LocalFileSystem;
use pagewell_object_store::PagewellStore;
use serde::{Deserialize, Serialize};
use url::Url;

use crate::reads::{Reads, Waited};
use crate::server::{self, BUCKET};
use crate::tables::TABLES;

#[derive(
    Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Engine {
    /// The files themselves, in the operating system's cache.
    Local,
    /// The store as it is.
    Bare,
    /// The store behind `PagewellStore`.
    Pagewell,
    /// The store behind `opendal-layer-foyer`.
    #[cfg(feature = "peers")]
    #[serde(rename = "opendal-foyer")]
    OpendalFoyer,
    /// The store behind `micromegas-object-cache`.
    #[cfg(feature = "peers")]
    Micromegas,
}

impl Engine {
    pub(crate) fn all() -> Vec<Self> {
        Self::value_variants().to_vec()
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Local => "local",
            Self::Bare => "bare",
            Self::Pagewell => "pagewell",
            #[cfg(feature = "peers")]
            Self::OpendalFoyer => "opendal-foyer",
            #[cfg(feature = "peers")]
            Self::Micromegas => "micromegas",
        })
    }
}

/// Of the second tier.
const DISK_BYTES: u64 = 4 << 30;

/// A session with nothing in its caches, and what it reads through.
pub(crate) struct Setup {
    pub(crate) context: SessionContext,
    pub(crate) waited: Arc<Waited>,
    cache: Cache,
}

/// What is between the session and the store.
enum Cache {
    None,
    Pagewell(PagewellStore<AmazonS3>),
    #[cfg(feature = "peers")]
    Peer(crate::peers::Peer),
}

impl Setup {
    /// Says what the cache has counted, and has it write what the next process finds.
    pub(crate) async fn close(self) -> Result<()> {
        match self.cache {
            Cache::None => {}
            Cache::Pagewell(store) => eprintln!("{:?}", store.metrics()),
            #[cfg(feature = "peers")]
            Cache::Peer(peer) => peer.close().await?,
        }
        Ok(())
    }
}

/// What a setup is made of.
pub(crate) struct Making<'a> {
    pub(crate) engine: Engine,
    /// Through the relay.
    pub(crate) store: SocketAddr,
    pub(crate) tables: &'a Path,
    pub(crate) capacity: u64,
    /// The folder of a second tier.
    pub(crate) disk: Option<PathBuf>,
}

impl Making<'_> {
    pub(crate) async fn setup(&self) -> Result<Setup> {
        let bare = Arc::new(server::client(self.store)?);
        let (store, cache): (Arc<dyn ObjectStore>, Cache) = match self.engine {
            Engine::Local => (Arc::new(LocalFileSystem::new()), Cache::None),
            Engine::Bare => (bare, Cache::None),
            Engine::Pagewell => {
                let mut builder = PagewellStore::builder(bare).capacity(self.capacity);
                if let Some(disk) = &self.disk {
                    builder = builder.disk(disk, DISK_BYTES).namespace(BUCKET);
                }
                let store = builder.build()?;
                (Arc::new(store.clone()), Cache::Pagewell(store))
            }
            #[cfg(feature = "peers")]
            Engine::OpendalFoyer | Engine::Micromegas => {
                let disk = self.disk.as_deref().map(|folder| (folder, DISK_BYTES));
                let (store, peer) = match self.engine {
                    Engine::Micromegas => {
                        crate::peers::micromegas(bare, self.capacity, disk).await?
                    }
                    _ => crate::peers::opendal_foyer(bare, self.capacity, disk).await?,
                };
                (store, Cache::Peer(peer))
            }
        };
        let base = match self.engine {
            Engine::Local => format!("file://{}", self.tables.display()),
            _ => format!("s3://{BUCKET}"),
        };
        let waited = Arc::<Waited>::default();
        let reads = Reads {
            store,
            waited: Arc::clone(&waited),
        };
        let context = SessionContext::new_with_config(SessionConfig::new());
        context.register_object_store(&Url::parse(&base)?, Arc::new(reads));
        for table in &TABLES {
            // With its schema: a table that is registered is not read.
            let options = ListingOptions::new(Arc::new(ParquetFormat::default()));
            let path = format!("{base}/{}/", table.name);
            let schema = Some((table.schema)());
            context
                .register_listing_table(table.name, path, options, schema, None)
                .await?;
        }
        Ok(Setup {
            context,
            waited,
            cache,
        })
    }
}
