//! Operators: a room's operations as methods of a value that is no more than references to the parts that they need.
//!
//! Such a value is made where it is used (`Tables::of(&supply).copy(table)`), handed over by value, and costs nothing: so a call names
//! the room that it goes to, and the room sees the parts that it was handed and nothing else.

/// Makes an operator, `Name<'_, S>`, a value to be copied. (A derive would ask that `S` be one.)
macro_rules! parts {
    ($name:ident) => {
        impl<S: RefScheme> Clone for $name<'_, S> {
            #[inline(always)]
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<S: RefScheme> Copy for $name<'_, S> {}
    };
}

pub(crate) use parts;
