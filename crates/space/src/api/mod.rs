//! Public handles ([`handles::Spaces`], [`handles::Space`]), their calls and checks of arguments.

mod access;
mod areas;
pub(crate) mod cache;
pub(crate) mod handles;
mod motion;
mod verify;
