//! A value, as far as conditions distinguish values. Used by `perl::script`, `php::script` and others here, and by
//! crate `agent`.

/// A value; `T` locates its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar<T> {
    /// `nil`, `None`, `undef` or `null`.
    Nothing,
    /// A whole number of 64 bits.
    Integer(i64),
    /// A text or a string of bytes; of Ruby also a Symbol's name.
    Text(T),
    /// Any other value: a fraction, a larger number, a truth value, a container, an object.
    Other,
}

impl<T> Scalar<T> {
    /// Returns the same value with its text located in another way.
    pub(crate) fn map<U>(self, text: impl FnOnce(T) -> U) -> Scalar<U> {
        match self {
            Scalar::Nothing => Scalar::Nothing,
            Scalar::Integer(number) => Scalar::Integer(number),
            Scalar::Text(of) => Scalar::Text(text(of)),
            Scalar::Other => Scalar::Other,
        }
    }
}
