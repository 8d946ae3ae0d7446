//! A database of several times the cache: the budget holds, and nothing is lost.

mod support;

use rusqlite::params;

use support::*;

#[test]
fn a_database_of_many_times_the_cache_is_read_and_written_within_the_budget() {
    let dir = tempfile::tempdir().unwrap();
    for (name, mode, direct) in [
        ("a", "wal", "never"),
        ("b", "delete", "never"),
        ("c", "wal", "auto"),
    ] {
        let path = dir.path().join(name);
        let parameters = format!("&pw_cache=1M&pw_direct={direct}");
        let db = try_open(&path, &parameters).unwrap();
        set_mode(&db, mode);
        db.execute_batch("PRAGMA cache_size=20; PRAGMA synchronous=NORMAL")
            .unwrap();
        db.execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY, version INTEGER, body BLOB)")
            .unwrap();
        db.execute_batch(
            "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 19999)
             INSERT INTO t SELECT i, 0, zeroblob(200) FROM n",
        )
        .unwrap();
        let size = std::fs::metadata(&path).unwrap().len();
        let mut numbers = Numbers(7);
        let mut versions = vec![0; 20_000];
        for _ in 0..100 {
            db.execute_batch("BEGIN").unwrap();
            for _ in 0..20 {
                let id = numbers.below(20_000);
                versions[id as usize] += 1;
                db.execute("UPDATE t SET version = version + 1 WHERE id = ?", [id])
                    .unwrap();
            }
            db.execute_batch("COMMIT").unwrap();
            for _ in 0..50 {
                let id = numbers.below(20_000);
                let sql = "SELECT version FROM t WHERE id = ?";
                let version: i64 = db.query_row(sql, params![id], |row| row.get(0)).unwrap();
                assert_eq!(version, versions[id as usize]);
            }
        }
        check(&db);
        assert_eq!(statistic(&db, "capacity"), 1 << 20);
        assert!(statistic(&db, "nr_frames") * 4096 <= 1 << 20);
        assert!(statistic(&db, "nr_evictions") > 1000);
        db.close().unwrap();
        let size = size.max(std::fs::metadata(&path).unwrap().len());
        assert!(size >= 4 << 20, "{size}");
        check(&open_unix(&path));
    }
}
