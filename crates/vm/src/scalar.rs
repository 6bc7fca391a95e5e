//! What a value is, as far as a condition asks for it.

/// A value; `T` is where its text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar<T> {
    /// `nil`, `None`.
    Nothing,
    /// A whole number of 64 bits.
    Integer(i64),
    /// Text, or bytes.
    Text(T),
    /// Something else.
    Other,
}
