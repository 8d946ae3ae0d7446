//! Identity of states of an object: comparison of descriptions, and requests for a known state.
//!
//! A *strong* entity tag changes with each byte of an object. Different *weak* tags (`W/"..."`)
//! belong to different states, but equal ones prove nothing. An empty tag counts as missing. A time
//! identifies a state only if the change was at least a second old when the state was requested.

use std::time::{Duration, SystemTime};

use object_store::{GetOptions, ObjectMeta};

/// Entity tag without quotes. Azure omits the quotes in listings, but not in other answers.
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

pub(crate) fn strong_tag(meta: &ObjectMeta) -> Option<&str> {
    match Tag::of(meta)? {
        Tag::Strong(opaque) => Some(opaque),
        Tag::Weak(_) => None,
    }
}

/// Returns the version. If versioning is suspended, S3 gives each new object the version `null`.
fn version(meta: &ObjectMeta) -> Option<&str> {
    meta.version
        .as_deref()
        .filter(|version| !version.is_empty() && *version != "null")
}

/// Returns the time of the last change. Stores return the epoch for an object that has none.
fn time(meta: &ObjectMeta) -> Option<SystemTime> {
    let time = SystemTime::from(meta.last_modified);
    (time > SystemTime::UNIX_EPOCH).then_some(time)
}

/// Minimum age of the last change when a state is requested. The time of a younger change does not
/// identify the state, since changes in one second have the same HTTP date (RFC 9110, 8.8.2.2).
const MIN_AGE: Duration = Duration::from_secs(1);

/// State of an object, as an answer of the store has described it.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) meta: ObjectMeta,
    /// Whether the time of the last change differs from that of every later state.
    has_distinct_time: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Same,
    Different,
    /// The parts that both descriptions have are equal, but do not identify the state.
    Unproven,
}

impl State {
    /// Returns the state that `meta` describes, in the answer to a request sent at `requested`.
    pub(crate) fn new(meta: ObjectMeta, requested: SystemTime) -> Self {
        let age = time(&meta).and_then(|time| requested.duration_since(time).ok());
        Self {
            has_distinct_time: age.is_some_and(|age| age >= MIN_AGE),
            meta,
        }
    }

    /// Returns `true` if a later description can prove that the object still has this state.
    pub(crate) fn is_provable(&self) -> bool {
        strong_tag(&self.meta).is_some() || version(&self.meta).is_some() || self.has_distinct_time
    }

    /// Compares this state with a later description of the object:
    ///
    /// - `Different` if sizes, versions or tags differ. Tags are compared without quotes and
    ///   strength, since a server may mark a tag as weak first and as strong later.
    /// - `Same` if versions or strong tags are equal.
    /// - Otherwise `Different` if the times differ, `Same` if they are equal and each later state
    ///   has another time, and else `Unproven`.
    pub(crate) fn compare(&self, now: &ObjectMeta) -> Verdict {
        let known = &self.meta;
        let versions = version(known).zip(version(now));
        let tags = Tag::of(known).zip(Tag::of(now));
        if known.size != now.size
            || versions.is_some_and(|(known, now)| known != now)
            || tags.is_some_and(|(known, now)| known.opaque() != now.opaque())
        {
            return Verdict::Different;
        }
        if versions.is_some() || matches!(tags, Some((Tag::Strong(_), Tag::Strong(_)))) {
            return Verdict::Same;
        }
        match time(known).zip(time(now)) {
            Some((known, now)) if known != now => Verdict::Different,
            Some(_) if self.has_distinct_time => Verdict::Same,
            _ => Verdict::Unproven,
        }
    }

    /// If `now` has another time, returns this state with that time: the object was written again
    /// with the same bytes. The tag, which is equal, keeps its spelling.
    pub(crate) fn rewritten(&self, now: &ObjectMeta) -> Option<Self> {
        let time = time(now).filter(|time| *time != SystemTime::from(self.meta.last_modified))?;
        Some(Self {
            meta: ObjectMeta {
                last_modified: time.into(),
                ..self.meta.clone()
            },
            // An equal tag or version has proved the state, so its time is not needed.
            has_distinct_time: false,
        })
    }

    /// Returns `true` if an answer that `now` describes may have bytes of this state. Another
    /// version with the same strong tag and size has the same bytes.
    pub(crate) fn may_have_bytes_of(&self, now: &ObjectMeta) -> bool {
        match strong_tag(&self.meta).zip(strong_tag(now)) {
            Some((tag, tag_now)) => tag == tag_now && self.meta.size == now.size,
            None => self.compare(now) != Verdict::Different,
        }
    }
}

/// Returns the options of a request that only this state may answer: `If-Match` with the strong tag
/// as the store spells it, or else the version. A version is requested only without a strong tag,
/// since S3 requires a permission for it. Without either, the options are empty. The caller must
/// compare the answer with the state, since a store may ignore conditions.
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

    /// Compares descriptions of a state that was requested at 1000 s.
    fn compare(known: ObjectMeta, now: &ObjectMeta) -> Verdict {
        let requested = SystemTime::UNIX_EPOCH + Duration::from_secs(1000);
        State::new(known, requested).compare(now)
    }

    #[test]
    fn states_are_equal_by_strong_tag_or_version_and_else_by_time() {
        let (same, other, unproven) = (Verdict::Same, Verdict::Different, Verdict::Unproven);
        // Two tags; the verdicts for states with these tags and with equal old times, equal times
        // of the request, other times, and no times.
        let by_tag = [
            (Some("x"), Some("x"), [same, same, same, same]),
            (Some("x"), Some("\"x\""), [same, same, same, same]),
            (Some("\"x\""), Some("x"), [same, same, same, same]),
            (Some("x"), Some("y"), [other, other, other, other]),
            (Some("\"x\""), Some("\"y\""), [other, other, other, other]),
            (
                Some("W/\"x\""),
                Some("W/\"x\""),
                [same, unproven, other, unproven],
            ),
            (
                Some("W/\"x\""),
                Some("W/\"y\""),
                [other, other, other, other],
            ),
            (
                Some("\"x\""),
                Some("W/\"x\""),
                [same, unproven, other, unproven],
            ),
            (
                Some("W/\"x\""),
                Some("\"x\""),
                [same, unproven, other, unproven],
            ),
            (Some("\"x\""), Some("W/\"y\""), [other, other, other, other]),
            (Some("W/\"x\""), Some("\"y\""), [other, other, other, other]),
            (Some("x"), None, [same, unproven, other, unproven]),
            (None, Some("x"), [same, unproven, other, unproven]),
            (None, None, [same, unproven, other, unproven]),
            (Some(""), Some(""), [same, unproven, other, unproven]),
            (
                Some("\"\""),
                Some("\"\""),
                [same, unproven, other, unproven],
            ),
            (Some(""), Some("x"), [same, unproven, other, unproven]),
            (Some("*"), Some("*"), [same, unproven, other, unproven]),
            (
                Some("W/\"\""),
                Some("W/"),
                [same, unproven, other, unproven],
            ),
        ];
        for (known, now, expected) in by_tag {
            let verdicts = [(5, 5), (1000, 1000), (5, 6), (0, 0)].map(|(before, time)| {
                let (known, now) = (meta(known, None, 9, before), meta(now, None, 9, time));
                compare(known, &now)
            });
            assert_eq!(verdicts, expected, "{known:?} {now:?}");
            let (known, now) = (meta(known, None, 9, 5), meta(now, None, 8, 5));
            assert_eq!(compare(known.clone(), &now), other, "{known:?} {now:?}");
        }
        let by_version = [
            (None, Some("1"), None, Some("1"), same),
            (None, Some("1"), None, Some("2"), other),
            (None, Some("1"), Some("x"), Some("1"), same),
            (Some("W/x"), Some("1"), Some("W/x"), Some("1"), same),
            (Some("x"), Some("1"), Some("x"), Some("2"), other),
            (Some("x"), Some("1"), Some("y"), Some("1"), other),
            (Some("x"), Some("1"), Some("x"), None, same),
            (None, Some(""), None, Some(""), other),
            (None, Some("null"), None, Some("null"), other),
        ];
        for (tag, version, tag_now, version_now, expected) in by_version {
            let (known, now) = (meta(tag, version, 9, 5), meta(tag_now, version_now, 9, 6));
            assert_eq!(compare(known.clone(), &now), expected, "{known:?} {now:?}");
            let state = State::new(known, SystemTime::UNIX_EPOCH);
            let are_strong = tag == Some("x") && tag_now == Some("x");
            assert_eq!(
                state.may_have_bytes_of(&now),
                expected == same || are_strong,
                "{state:?} {now:?}"
            );
        }
    }

    #[test]
    fn a_rewritten_state_has_another_time() {
        let known = State::new(meta(Some("\"x\""), None, 9, 5), SystemTime::now());
        for (time, expected) in [(5, None), (0, None), (6, Some(6))] {
            let rewritten = known.rewritten(&meta(Some("x"), Some("1"), 9, time));
            let expected = expected.map(|time| meta(Some("\"x\""), None, 9, time));
            assert_eq!(rewritten.map(|state| state.meta), expected);
        }
    }

    #[test]
    fn a_time_is_distinct_if_the_change_was_a_second_old() {
        let requested = SystemTime::UNIX_EPOCH + Duration::from_secs(1000);
        for (time, is_distinct) in [
            (0, false),
            (1, true),
            (998, true),
            (999, true),
            (1000, false),
            (1001, false),
            (9000, false),
        ] {
            for tag in [None, Some(""), Some("W/x")] {
                let state = State::new(meta(tag, None, 9, time), requested);
                assert_eq!(state.is_provable(), is_distinct, "{time}");
            }
            for (tag, version) in [(Some("x"), None), (None, Some("1"))] {
                assert!(State::new(meta(tag, version, 9, time), requested).is_provable());
            }
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
