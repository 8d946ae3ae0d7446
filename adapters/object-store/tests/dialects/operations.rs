//! Operations of the matrix. Each one runs on the client and on the wrapper, and fails if the
//! wrapper's answers deviate.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _};
use object_store::path::Path;
use object_store::prefix::PrefixStore;
use object_store::{
    GetRange, ObjectStore, ObjectStoreExt as _, PutMode, PutResult, Result, UpdateVersion,
};

use crate::bench::{
    Answer, Bench, MAX_RETRIES, Outcome, compare, compare_get, get, is_refusal, kind,
};
use crate::table::{Coding, Dialect, Tags};
use crate::{PAGE, content};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// Whole objects, first and from the cache.
    Get,
    Range,
    Suffix,
    PastTheEnd,
    Empty,
    Head,
    Put,
    List,
    Delete,
    /// Reads after trust has passed, without a change.
    Revalidate,
    /// Reads after a change that bypassed the wrapper, when trust has passed.
    Overwritten,
    /// As `Overwritten`, with both states in one second of the server's clock.
    SameSecond,
    /// Reads of a partly cached object after a change, within trust.
    NoMixture,
    /// As `NoMixture`, with all states in one second of the server's clock.
    SameSecondMixture,
    /// Reads while the server answers 503.
    Overload,
    /// Reads through a `PrefixStore` below the wrapper.
    Prefix,
}

impl Operation {
    pub(crate) const ALL: [Self; 16] = [
        Self::Get,
        Self::Range,
        Self::Suffix,
        Self::PastTheEnd,
        Self::Empty,
        Self::Head,
        Self::Put,
        Self::List,
        Self::Delete,
        Self::Revalidate,
        Self::Overwritten,
        Self::SameSecond,
        Self::NoMixture,
        Self::SameSecondMixture,
        Self::Overload,
        Self::Prefix,
    ];

    pub(crate) async fn run(self, dialect: &'static Dialect) -> Outcome {
        match self {
            Self::Get => whole(dialect).await,
            Self::Range => range(dialect).await,
            Self::Suffix => suffix(dialect).await,
            Self::PastTheEnd => past_the_end(dialect).await,
            Self::Empty => empty(dialect).await,
            Self::Head => head(dialect).await,
            Self::Put => put(dialect).await,
            Self::List => list(dialect).await,
            Self::Delete => delete(dialect).await,
            Self::Revalidate => revalidate(dialect).await,
            Self::Overwritten => overwritten(dialect, false).await,
            Self::SameSecond => overwritten(dialect, true).await,
            Self::NoMixture => no_mixture(dialect, false).await,
            Self::SameSecondMixture => no_mixture(dialect, true).await,
            Self::Overload => overload(dialect).await,
            Self::Prefix => prefix(dialect).await,
        }
    }
}

const SMALL: &str = "small";
const LARGE: &str = "dir/large";
const EMPTY: &str = "dir/empty";
const MISSING: &str = "dir/missing";

/// Object that the first request of the wrapper does not cover.
const HUGE: &str = "huge";

const HUGE_LEN: usize = (4 << 20) + 3 * PAGE + 100;

const LARGE_LEN: u64 = 5 * PAGE as u64 + 100;

fn fill(bench: &Bench) {
    bench.server.put(SMALL, content(100, 1));
    bench.server.put(LARGE, content(LARGE_LEN as usize, 2));
    bench.server.put(EMPTY, Vec::new());
}

fn filled(dialect: &'static Dialect) -> Bench {
    let bench = Bench::new(dialect);
    fill(&bench);
    bench
}

async fn whole(dialect: &'static Dialect) -> Outcome {
    let bench = filled(dialect);
    bench.server.put(HUGE, content(HUGE_LEN, 3));
    for path in [SMALL, LARGE, HUGE, MISSING] {
        for _ in 0..3 {
            compare_get(&bench, &bench.trusting, path, None).await?;
        }
    }
    Ok(())
}

async fn range(dialect: &'static Dialect) -> Outcome {
    let (bench, page) = (filled(dialect), PAGE as u64);
    let ranges = [
        0..10,
        page - 90..page + 100,
        page..3 * page,
        2 * page + 5..LARGE_LEN,
        0..LARGE_LEN,
        0..LARGE_LEN + 50,
    ];
    for _ in 0..2 {
        for range in &ranges {
            let range = Some(GetRange::Bounded(range.clone()));
            compare_get(&bench, &bench.trusting, LARGE, range).await?;
        }
        let offset = Some(GetRange::Offset(3 * page + 7));
        compare_get(&bench, &bench.trusting, LARGE, offset).await?;
        for range in [10..20, 0..100, 0..1000] {
            let range = Some(GetRange::Bounded(range));
            compare_get(&bench, &bench.trusting, SMALL, range).await?;
        }
        compare_get(&bench, &bench.trusting, MISSING, Some((0..10).into())).await?;
    }
    let (bench, path) = (filled(dialect), Path::from(LARGE));
    let ranges = [0..10, 4 * page..4 * page + 10, page + 1..page + 20];
    let wrapped = bench.trusting.get_ranges(&path, &ranges).await;
    match bench.bare.get_ranges(&path, &ranges).await {
        Err(error) if is_refusal(&kind(&error)) && wrapped.is_ok() => {
            let object = bench.server.bytes(LARGE).unwrap_or_default();
            let part = |range: &std::ops::Range<u64>| {
                object.slice(range.start as usize..range.end as usize)
            };
            compare("get_ranges", Ok(ranges.iter().map(part).collect()), wrapped)
        }
        bare => compare("get_ranges", bare, wrapped),
    }
}

async fn suffix(dialect: &'static Dialect) -> Outcome {
    for lens in [
        [1, 100, PAGE as u64, LARGE_LEN + 10],
        [LARGE_LEN, 5000, 100, 1],
    ] {
        let bench = filled(dialect);
        for _ in 0..2 {
            for path in [LARGE, SMALL, MISSING] {
                for len in lens {
                    let range = Some(GetRange::Suffix(len));
                    compare_get(&bench, &bench.trusting, path, range).await?;
                }
            }
        }
    }
    Ok(())
}

async fn past_the_end(dialect: &'static Dialect) -> Outcome {
    let bench = filled(dialect);
    for _ in 0..2 {
        for start in [LARGE_LEN, LARGE_LEN + PAGE as u64, 1 << 40] {
            for range in [(start..start + 10).into(), GetRange::Offset(start)] {
                for wrapper in [&bench.trusting, &bench.doubting] {
                    compare_get(&bench, wrapper, LARGE, Some(range.clone())).await?;
                    compare_get(&bench, wrapper, SMALL, Some(range.clone())).await?;
                }
            }
        }
        // Now the size is known.
        compare_get(&bench, &bench.trusting, LARGE, None).await?;
        compare_get(&bench, &bench.trusting, SMALL, None).await?;
    }
    Ok(())
}

async fn empty(dialect: &'static Dialect) -> Outcome {
    for is_first_a_range in [false, true] {
        let bench = filled(dialect);
        for wrapper in [&bench.trusting, &bench.doubting] {
            for nr in 0..3 {
                if nr > 0 || !is_first_a_range {
                    compare_get(&bench, wrapper, EMPTY, None).await?;
                }
                compare_get(&bench, wrapper, EMPTY, Some((0..10).into())).await?;
                compare_get(&bench, wrapper, EMPTY, Some(GetRange::Offset(0))).await?;
            }
        }
    }
    Ok(())
}

async fn head(dialect: &'static Dialect) -> Outcome {
    let bench = filled(dialect);
    for _ in 0..2 {
        for path in [LARGE, EMPTY, MISSING] {
            let location = Path::from(path);
            let bare = bench.bare.head(&location).await;
            compare("head", bare, bench.trusting.head(&location).await)?;
            // A refused or failed head does not affect the next get.
            compare_get(&bench, &bench.trusting, path, None).await?;
        }
    }
    Ok(())
}

fn fields(result: PutResult) -> (Option<String>, Option<String>) {
    (result.e_tag, result.version)
}

/// Writes to two equal servers: through the client of one, and through the wrapper of the other.
async fn put(dialect: &'static Dialect) -> Outcome {
    let (twin, bench) = (filled(dialect), filled(dialect));
    let location = Path::from(LARGE);
    let known = get(&bench.bare, LARGE, None).await;
    let known = match known {
        Answer::Got { meta, .. } => UpdateVersion {
            e_tag: meta.e_tag,
            version: meta.version,
        },
        Answer::Failed(_) => UpdateVersion::from(PutResult {
            e_tag: None,
            version: None,
        }),
    };
    let modes = [
        PutMode::Update(known.clone()),
        // The version is no longer the current one.
        PutMode::Update(known),
        PutMode::Create,
        PutMode::Overwrite,
        PutMode::Overwrite,
    ];
    for (nr, mode) in modes.into_iter().enumerate() {
        compare_get(&bench, &bench.trusting, LARGE, None).await?;
        // The size changes, or stays the same.
        let bytes = content(LARGE_LEN as usize + nr / 2 * 1000, 10 + nr as u8);
        let put = async |store: &dyn ObjectStore| {
            let payload = Bytes::from(bytes.clone()).into();
            let result = store
                .put_opts(&location, payload, mode.clone().into())
                .await;
            result.map(fields)
        };
        let (bare, wrapped) = (put(&twin.bare).await, put(&bench.trusting).await);
        compare(&format!("put {nr}"), bare, wrapped)?;
        if twin.server.bytes(LARGE) != bench.server.bytes(LARGE) {
            return Err(format!("put {nr} had another effect through the wrapper"));
        }
        compare_get(&bench, &bench.trusting, LARGE, Some((0..10).into())).await?;
        compare_get(&bench, &bench.trusting, LARGE, None).await?;
    }
    Ok(())
}

async fn list(dialect: &'static Dialect) -> Outcome {
    let bench = filled(dialect);
    let (folder, offset) = (Path::from("dir"), Path::from(EMPTY));
    let lists = async |store: &dyn ObjectStore| -> [Result<Vec<String>>; 4] {
        let by_delimiter = store.list_with_delimiter(None).await.map(|list| {
            let folders = list
                .common_prefixes
                .iter()
                .map(|folder| format!("{folder}/"));
            folders
                .chain(list.objects.iter().map(|meta| format!("{meta:?}")))
                .collect()
        });
        let text = |meta| format!("{meta:?}");
        [
            store.list(None).map_ok(text).try_collect().await,
            store.list(Some(&folder)).map_ok(text).try_collect().await,
            store
                .list_with_offset(Some(&folder), &offset)
                .map_ok(text)
                .try_collect()
                .await,
            by_delimiter,
        ]
    };
    compare_get(&bench, &bench.trusting, LARGE, None).await?;
    for _ in 0..2 {
        let bare = lists(&bench.bare).await;
        let wrapped = lists(&bench.trusting).await;
        let is_listed = bare.iter().all(Result::is_ok);
        let nr_entries: usize = bare.iter().flatten().map(Vec::len).sum();
        if is_listed && nr_entries != 3 + 2 + 1 + 2 {
            return Err(format!("the client lists {nr_entries} entries: {bare:?}"));
        }
        for (bare, wrapped) in bare.into_iter().zip(wrapped) {
            compare("list", bare, wrapped)?;
        }
        // A list of the known states leaves their pages in the cache.
        let is_identified = dialect.tags == Tags::Strong && dialect.coding == Coding::Plain;
        let nr_requests = bench.server.nr_requests();
        let _ = get(&bench.trusting, LARGE, None).await;
        let nr_more = bench.server.nr_requests() - nr_requests;
        if is_identified && nr_more > 0 {
            return Err(format!("a read after a list takes {nr_more} requests"));
        }
        compare_get(&bench, &bench.trusting, LARGE, None).await?;
    }
    Ok(())
}

/// Deletes from two equal servers: through the client of one, and through the wrapper of the other.
async fn delete(dialect: &'static Dialect) -> Outcome {
    let (twin, bench) = (filled(dialect), filled(dialect));
    for path in [LARGE, MISSING, LARGE] {
        let location = Path::from(path);
        compare_get(&bench, &bench.trusting, path, None).await?;
        let bare = twin.bare.delete(&location).await;
        compare("delete", bare, bench.trusting.delete(&location).await)?;
        if twin.server.bytes(path) != bench.server.bytes(path) {
            return Err(format!(
                "the delete of {path} had another effect through the wrapper"
            ));
        }
        compare_get(&bench, &bench.trusting, path, None).await?;
        compare_get(&bench, &bench.trusting, path, Some((0..10).into())).await?;
    }
    compare_get(&bench, &bench.trusting, SMALL, None).await?;
    let delete = async |store: &dyn ObjectStore| {
        let paths = [SMALL, MISSING, EMPTY].map(|path| Ok(Path::from(path)));
        let deleted = store.delete_stream(futures_util::stream::iter(paths).boxed());
        let deleted = deleted.map(|result| result.map_err(|error| kind(&error)));
        deleted.collect::<Vec<_>>().await
    };
    let (bare, wrapped) = (delete(&twin.bare).await, delete(&bench.trusting).await);
    compare("delete_stream", Ok(bare), Ok(wrapped))?;
    compare_get(&bench, &bench.trusting, SMALL, None).await
}

async fn revalidate(dialect: &'static Dialect) -> Outcome {
    let bench = filled(dialect);
    for _ in 0..4 {
        compare_get(&bench, &bench.doubting, SMALL, None).await?;
        compare_get(&bench, &bench.doubting, LARGE, Some((0..10).into())).await?;
        compare_get(&bench, &bench.doubting, LARGE, Some((9000..9100).into())).await?;
        compare_get(&bench, &bench.doubting, LARGE, None).await?;
        compare_get(&bench, &bench.doubting, MISSING, None).await?;
    }
    Ok(())
}

async fn overwritten(dialect: &'static Dialect, is_in_one_second: bool) -> Outcome {
    for is_partly_known in [false, true] {
        let bench = Bench::new(dialect);
        if is_in_one_second {
            bench.server.stop_clock_ahead();
        }
        fill(&bench);
        for round in 0..3 {
            let known = is_partly_known.then(|| (0..10).into());
            compare_get(&bench, &bench.doubting, LARGE, known.clone()).await?;
            compare_get(&bench, &bench.doubting, SMALL, known).await?;
            bench
                .server
                .put(LARGE, content(LARGE_LEN as usize, 20 + round));
            bench.server.put(SMALL, content(100, 30 + round));
            let range = Some((PAGE as u64 * 2..PAGE as u64 * 3).into());
            compare_get(&bench, &bench.doubting, LARGE, range).await?;
            compare_get(&bench, &bench.doubting, LARGE, Some((0..10).into())).await?;
            compare_get(&bench, &bench.doubting, LARGE, None).await?;
            compare_get(&bench, &bench.doubting, SMALL, None).await?;
        }
    }
    Ok(())
}

async fn no_mixture(dialect: &'static Dialect, is_in_one_second: bool) -> Outcome {
    let bench = Bench::new(dialect);
    if is_in_one_second {
        bench.server.stop_clock_ahead();
    }
    fill(&bench);
    let mut states = vec![content(LARGE_LEN as usize, 2)];
    for round in 0..3 {
        let page = PAGE as u64;
        let range = Some((round * page..round * page + 10).into());
        let _ = get(&bench.trusting, LARGE, range).await;
        states.push(content(LARGE_LEN as usize, 40 + round as u8));
        bench.server.put(LARGE, states[states.len() - 1].clone());
        let wrapped = get(&bench.trusting, LARGE, None).await;
        let is_state = wrapped
            .bytes()
            .is_some_and(|bytes| states.iter().any(|s| s == bytes));
        if !is_state && wrapped != get(&bench.bare, LARGE, None).await {
            let summary = wrapped.summary();
            return Err(format!(
                "the answer is of no state of the object: {summary}"
            ));
        }
    }
    Ok(())
}

async fn overload(dialect: &'static Dialect) -> Outcome {
    let bench = filled(dialect);
    for path in [LARGE, SMALL] {
        bench.server.refuse(usize::MAX);
        let bare = get(&bench.bare, path, None).await;
        for wrapper in [&bench.trusting, &bench.doubting] {
            let wrapped = get(wrapper, path, None).await;
            if wrapped != bare {
                let (bare, wrapped) = (bare.summary(), wrapped.summary());
                return Err(format!(
                    "overload: the client returns {bare}, the wrapper {wrapped}"
                ));
            }
        }
        // The client hides a short overload.
        for wrapper in [&bench.trusting, &bench.doubting] {
            bench.server.refuse(MAX_RETRIES);
            let wrapped = get(wrapper, path, None).await;
            bench.server.refuse(0);
            if wrapped != get(&bench.bare, path, None).await {
                let wrapped = wrapped.summary();
                return Err(format!("short overload: the wrapper returns {wrapped}"));
            }
            compare_get(&bench, wrapper, path, None).await?;
        }
        // A trusted state needs no request, if its first read succeeded.
        let before = get(&bench.trusting, path, None).await;
        bench.server.refuse(usize::MAX);
        let wrapped = get(&bench.trusting, path, None).await;
        if before.bytes().is_some() && dialect.tags == Tags::Strong && wrapped != before {
            return Err(format!("a cached read returns {}", wrapped.summary()));
        }
        // After an overload reads succeed again.
        let _ = get(&bench.doubting, path, None).await;
        bench.server.refuse(0);
        compare_get(&bench, &bench.doubting, path, None).await?;
    }
    Ok(())
}

async fn prefix(dialect: &'static Dialect) -> Outcome {
    let bench = Bench::within(dialect, |store| {
        Arc::new(PrefixStore::new(store, "dir")) as Arc<dyn ObjectStore>
    });
    fill(&bench);
    let path = "large";
    let object = bench.server.bytes(LARGE).unwrap_or_default();
    for wrapper in [&bench.trusting, &bench.doubting] {
        for range in [0..10, 9000..9100, 0..LARGE_LEN] {
            let bare = get(&bench.bare, path, Some(range.clone().into())).await;
            let wrapped = get(wrapper, path, Some(range.clone().into())).await;
            let right = object.slice(range.start as usize..range.end as usize);
            let is_refused = matches!(&bare, Answer::Failed(kind) if is_refusal(kind));
            if wrapped != bare && !(is_refused && wrapped.bytes() == Some(&right)) {
                return Err(format!(
                    "get of {range:?}: the client returns {}; the wrapper returns {}",
                    bare.summary(),
                    wrapped.summary()
                ));
            }
        }
    }
    let location = Path::from(path);
    let bare = bench.bare.head(&location).await;
    compare("head", bare, bench.trusting.head(&location).await)
}
