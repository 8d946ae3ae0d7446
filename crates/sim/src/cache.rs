//! What a simulated cache can do.

/// A cache that holds numbers of pages.
pub(crate) trait Cache {
    /// Asks for a page; whether it was in the cache.
    fn request(&mut self, page: u32) -> bool;
}
