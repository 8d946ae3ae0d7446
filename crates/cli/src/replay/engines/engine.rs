//! What every way to read and write can do.

/// A file that is open in some way.
pub(in crate::replay) trait Engine {
    /// Fills `buf` from the file; it lies inside of it.
    fn read(&mut self, buf: &mut [u8], offset: u64) -> Result<(), String>;

    /// Writes `bytes` to the file, inside of it.
    fn write(&mut self, bytes: &[u8], offset: u64) -> Result<(), String>;

    /// Makes what was written durable.
    fn sync(&mut self) -> Result<(), String>;

    /// Pages that were read from the file so far; None if the engine does not know.
    fn nr_fills(&self) -> Option<u64> {
        None
    }

    /// Bytes of memory that the engine may take for itself.
    fn own_bytes(&self) -> u64 {
        0
    }
}
