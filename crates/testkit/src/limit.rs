//! Limits of this process.

use rustix::process::{Resource, getrlimit, setrlimit};

/// Sets the soft limit of `resource` to `amount`, or to the hard limit if that is less.
///
/// # Panics
///
/// If the system refuses the limit.
#[track_caller]
pub fn limit(resource: Resource, amount: u64) {
    let mut limit = getrlimit(resource);
    limit.current = Some(limit.maximum.map_or(amount, |most| amount.min(most)));
    setrlimit(resource, limit).unwrap();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::in_child;

    #[test]
    fn limit_is_that_of_the_process() {
        let status = in_child(|| {
            limit(Resource::Fsize, 12_345);
            i32::from(getrlimit(Resource::Fsize).current != Some(12_345))
        });
        assert_eq!(status, 0);
    }
}
