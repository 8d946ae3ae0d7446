//! Pagewell.
