//! What of this crate has models, as a crate of its own: `models/capi` compiles it with loom's atomics.

mod handles;
#[cfg(test)]
#[path = "pins/models.rs"]
mod pin_models;
#[path = "pins/slots.rs"]
mod pin_slots;
