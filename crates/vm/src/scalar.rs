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

impl<T> Scalar<T> {
    /// The same with its text told in another way.
    pub(crate) fn map<U>(self, text: impl FnOnce(T) -> U) -> Scalar<U> {
        match self {
            Scalar::Nothing => Scalar::Nothing,
            Scalar::Integer(number) => Scalar::Integer(number),
            Scalar::Text(of) => Scalar::Text(text(of)),
            Scalar::Other => Scalar::Other,
        }
    }
}
