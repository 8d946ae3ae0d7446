//! First steps: what the README shows works.

use pagewell::Cache;

#[test]
fn a_file_reads_as_it_is() {
    let dir = pagewell_testkit::scratch::dir();
    let path = dir.path().join("file");
    let content: Vec<u8> = (0..1_000_003_u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect();
    std::fs::write(&path, &content).unwrap();
    let cache = Cache::builder().capacity(256 << 10).build().unwrap();
    let file = cache.open(&path).unwrap();
    let mut buf = vec![0; content.len() + 100];
    for _ in 0..3 {
        assert_eq!(file.read_at(&mut buf, 0).unwrap(), content.len());
        assert_eq!(buf[..content.len()], content);
    }
    for page in [0, 7, 244] {
        let guard = file.pin(page).unwrap();
        let start = page as usize * 4096;
        assert_eq!(*guard, content[start..(start + 4096).min(content.len())]);
    }
    drop(file);
    assert_eq!(cache.stats().nr_free, cache.stats().nr_frames);
    cache.verify().unwrap();
}
