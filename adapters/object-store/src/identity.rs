//! Identity of the states of an object: which descriptions name the same state, and which requests
//! name a known one. The functions are pure.
//!
//! A *strong* entity tag changes with each byte of an object. A *weak* one (`W/"..."`) may stay the
//! same, so equal weak tags are no evidence; different ones are. An empty tag is no tag.

use object_store::{GetOptions, ObjectMeta};

/// Entity tag without quotes. Azure lists tags without them, and sends them with quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tag<'t> {
    Strong(&'t str),
    Weak(&'t str),
}

impl<'t> Tag<'t> {
    fn of(meta: &'t ObjectMeta) -> Option<Self> {
        let text = meta.e_tag.as_deref()?.trim();
        let weak = text.strip_prefix("W/").or_else(|| text.strip_prefix("w/"));
        let quoted = weak.unwrap_or(text);
        let opaque = quoted
            .strip_prefix('"')
            .and_then(|text| text.strip_suffix('"'))
            .unwrap_or(quoted);
        match opaque {
            // `If-Match: *` matches every state.
            "" | "*" => None,
            _ if weak.is_some() => Some(Self::Weak(opaque)),
            _ => Some(Self::Strong(opaque)),
        }
    }

    fn opaque(self) -> &'t str {
        match self {
            Self::Strong(opaque) | Self::Weak(opaque) => opaque,
        }
    }
}

/// Returns the strong entity tag of a state, without quotes.
pub(crate) fn strong_tag(meta: &ObjectMeta) -> Option<&str> {
    match Tag::of(meta)? {
        Tag::Strong(opaque) => Some(opaque),
        Tag::Weak(_) => None,
    }
}

/// Returns the version of a state. With versioning suspended, S3 calls the version of each new
/// object `null`.
fn version(meta: &ObjectMeta) -> Option<&str> {
    meta.version
        .as_deref()
        .filter(|version| !version.is_empty() && *version != "null")
}

/// Whether both describe the same state of an object. Their sizes must be equal. If both have a
/// version, the versions must be equal. If both have an entity tag, the tags must be equal without
/// quotes and strength: a server may call a tag weak first and strong later. If they share neither
/// a strong tag nor a version, their times of the last change must be equal.
pub(crate) fn is_same(known: &ObjectMeta, now: &ObjectMeta) -> bool {
    let versions = version(known).zip(version(now));
    let tags = Tag::of(known).zip(Tag::of(now));
    let are_strong = matches!(tags, Some((Tag::Strong(_), Tag::Strong(_))));
    known.size == now.size
        && tags.is_none_or(|(known, now)| known.opaque() == now.opaque())
        && versions.is_none_or(|(known, now)| known == now)
        && (are_strong || versions.is_some() || known.last_modified == now.last_modified)
}

/// Whether the bytes that `now` describes are those of the known state. Unlike [`is_same`], returns
/// `true` for another version with the same strong tag and size.
pub(crate) fn has_same_bytes(known: &ObjectMeta, now: &ObjectMeta) -> bool {
    match strong_tag(known).zip(strong_tag(now)) {
        Some((tag, tag_now)) => tag == tag_now && known.size == now.size,
        None => is_same(known, now),
    }
}

/// Returns the options of a request that only this state may answer: `If-Match` with the strong tag
/// as the store spells it, or else the version. A version is requested only without a strong tag,
/// since S3 requires a permission of its own for requests with a version. Without either, the
/// options are empty, and the caller must compare the answer with the state. It must do so in any
/// case, since a store may ignore conditions.
pub(crate) fn condition(meta: &ObjectMeta) -> GetOptions {
    let mut options = GetOptions::default();
    if strong_tag(meta).is_some() {
        options.if_match.clone_from(&meta.e_tag);
    } else {
        options.version = version(meta).map(Into::into);
    }
    options
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;

    fn meta(tag: Option<&str>, version: Option<&str>, size: u64, seconds: u64) -> ObjectMeta {
        ObjectMeta {
            location: "a".into(),
            last_modified: (SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).into(),
            size,
            e_tag: tag.map(Into::into),
            version: version.map(Into::into),
        }
    }

    #[test]
    fn states_are_equal_by_strong_tag_or_version_and_else_by_time() {
        // Two tags; whether states with these tags are the same, at equal and at other times.
        let by_tag = [
            (Some("x"), Some("x"), [true, true]),
            (Some("x"), Some("\"x\""), [true, true]),
            (Some("\"x\""), Some("x"), [true, true]),
            (Some("x"), Some("y"), [false, false]),
            (Some("\"x\""), Some("\"y\""), [false, false]),
            (Some("W/\"x\""), Some("W/\"x\""), [true, false]),
            (Some("W/\"x\""), Some("W/\"y\""), [false, false]),
            (Some("\"x\""), Some("W/\"x\""), [true, false]),
            (Some("W/\"x\""), Some("\"x\""), [true, false]),
            (Some("W/\"x\""), Some("\"y\""), [false, false]),
            (Some("\"x\""), Some("W/\"y\""), [false, false]),
            (Some("x"), None, [true, false]),
            (None, Some("x"), [true, false]),
            (None, None, [true, false]),
            (Some(""), Some(""), [true, false]),
            (Some("\"\""), Some("\"\""), [true, false]),
            (Some(""), Some("x"), [true, false]),
            (Some("*"), Some("*"), [true, false]),
            (Some("W/\"\""), Some("W/"), [true, false]),
        ];
        for (known, now, expected) in by_tag {
            let is_same = [5, 6].map(|time| {
                let (known, now) = (meta(known, None, 9, 5), meta(now, None, 9, time));
                is_same(&known, &now)
            });
            assert_eq!(is_same, expected, "{known:?} {now:?}");
            let (known, now) = (meta(known, None, 9, 5), meta(now, None, 8, 5));
            assert!(
                !super::is_same(&known, &now),
                "another size: {known:?} {now:?}"
            );
        }
        let by_version = [
            (None, Some("1"), None, Some("1"), true),
            (None, Some("1"), None, Some("2"), false),
            (None, Some("1"), Some("x"), Some("1"), true),
            (Some("W/x"), Some("1"), Some("W/x"), Some("1"), true),
            (Some("x"), Some("1"), Some("x"), Some("2"), false),
            (Some("x"), Some("1"), Some("y"), Some("1"), false),
            (Some("x"), Some("1"), Some("x"), None, true),
            (None, Some(""), None, Some(""), false),
            (None, Some("null"), None, Some("null"), false),
        ];
        for (tag, version, tag_now, version_now, expected) in by_version {
            let (known, now) = (meta(tag, version, 9, 5), meta(tag_now, version_now, 9, 6));
            assert_eq!(is_same(&known, &now), expected, "{known:?} {now:?}");
            let has_same_bytes = has_same_bytes(&known, &now);
            let are_strong = tag == Some("x") && tag_now == Some("x");
            assert_eq!(has_same_bytes, expected || are_strong, "{known:?} {now:?}");
        }
    }

    #[test]
    fn requests_name_a_strong_tag_or_else_the_version() {
        for (tag, version, if_match, expected_version) in [
            (Some("\"x\""), Some("1"), Some("\"x\""), None),
            (Some("x"), None, Some("x"), None),
            (Some("W/\"x\""), Some("1"), None, Some("1")),
            (Some("W/\"x\""), None, None, None),
            (Some(""), Some("1"), None, Some("1")),
            (Some("\"\""), None, None, None),
            (Some("*"), None, None, None),
            (None, Some("1"), None, Some("1")),
            (None, Some(""), None, None),
            (None, None, None, None),
        ] {
            let options = condition(&meta(tag, version, 9, 5));
            assert_eq!(options.if_match.as_deref(), if_match, "{tag:?}");
            assert_eq!(options.version.as_deref(), expected_version, "{tag:?}");
        }
    }

    #[test]
    fn only_strong_tags_last() {
        for (tag, expected) in [
            (Some("\"x\""), Some("x")),
            (Some("x"), Some("x")),
            (Some("W/\"x\""), None),
            (Some("W/x"), None),
            (Some(""), None),
            (None, None),
        ] {
            assert_eq!(strong_tag(&meta(tag, Some("1"), 9, 5)), expected);
        }
    }
}
