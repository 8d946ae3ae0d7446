//! Comparison of two descriptions of an object.

use object_store::ObjectMeta;

/// Whether both describe the same state of an object. Their sizes must be equal. If both have an
/// entity tag, the tags must be equal; if both have a version, the versions must be equal. If they
/// share neither kind of identifier, their times of the last change must be equal.
pub(crate) fn is_same(known: &ObjectMeta, now: &ObjectMeta) -> bool {
    let has_tag = known.e_tag.is_some() && now.e_tag.is_some();
    let has_version = known.version.is_some() && now.version.is_some();
    known.size == now.size
        && (!has_tag || known.e_tag == now.e_tag)
        && (!has_version || known.version == now.version)
        && (has_tag || has_version || known.last_modified == now.last_modified)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_told_by_tag_or_version_and_else_by_size_and_time() {
        let meta = |tag: Option<&str>, version: Option<&str>, size, seconds| ObjectMeta {
            location: "a".into(),
            last_modified: std::time::SystemTime::UNIX_EPOCH
                .checked_add(std::time::Duration::from_secs(seconds))
                .expect("a time")
                .into(),
            size,
            e_tag: tag.map(Into::into),
            version: version.map(Into::into),
        };
        let known = meta(Some("x"), None, 5, 1);
        assert!(is_same(&known, &meta(Some("x"), None, 5, 2)));
        assert!(!is_same(&known, &meta(Some("y"), None, 5, 1)));
        assert!(!is_same(&known, &meta(Some("x"), None, 6, 1)));
        assert!(is_same(&known, &meta(None, None, 5, 1)));
        assert!(!is_same(&known, &meta(None, None, 5, 2)));
        let known = meta(None, Some("1"), 5, 1);
        assert!(is_same(&known, &meta(Some("x"), Some("1"), 5, 9)));
        assert!(!is_same(&known, &meta(None, Some("2"), 5, 1)));
    }
}
