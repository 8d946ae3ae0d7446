//! Which code is only compiled for tests, and left out.

use syn::punctuated::Punctuated;
use syn::{Attribute, Meta, Token};

/// Whether these attributes leave an item out of every build but that of tests: `#[test]`, or a `cfg` that cannot hold
/// without `test`.
pub fn is_test_code(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("test")
            || attribute.path().is_ident("cfg")
                && attribute
                    .parse_args::<Meta>()
                    .is_ok_and(|predicate| needs_test(&predicate))
    })
}

/// Whether a predicate of `cfg` cannot hold unless `test` does.
fn needs_test(predicate: &Meta) -> bool {
    match predicate {
        Meta::Path(path) => path.is_ident("test"),
        Meta::List(list) => {
            let parts = list
                .parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated)
                .unwrap_or_default();
            if list.path.is_ident("all") {
                parts.iter().any(needs_test)
            } else {
                list.path.is_ident("any") && !parts.is_empty() && parts.iter().all(needs_test)
            }
        }
        Meta::NameValue(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use syn::parse::Parser as _;

    fn is_test(attribute: &str) -> bool {
        let attributes = Attribute::parse_outer.parse_str(attribute);
        is_test_code(&attributes.expect("an attribute"))
    }

    #[test]
    fn code_is_test_code_if_it_cannot_be_without_test() {
        let yes = [
            "#[test]",
            "#[cfg(test)]",
            "#[cfg(all(test, not(loom)))]",
            "#[cfg(any(all(loom, test), test))]",
            "#[cfg(all(unix, any(test)))]",
        ];
        let no = [
            "#[cfg(loom)]",
            "#[cfg(not(test))]",
            "#[cfg(any(test, loom))]",
            "#[cfg(all())]",
            "#[cfg(feature = \"test\")]",
            "#[doc = \"test\"]",
        ];
        assert!(yes.into_iter().all(is_test));
        assert!(!no.into_iter().any(is_test));
    }
}
