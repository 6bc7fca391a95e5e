//! Which of the times of threads a profile shows: that in which they ran, that in which they waited, or both. Used by
//! `profile` and `views`, and by the crates `report` and `lancet`.

/// What the samples of a [`Profile`](super::Profile) are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Threads that ran.
    #[default]
    Cpu,
    /// Threads that ran, and those that waited for what they had begun.
    Wall,
    /// Those that waited alone.
    Wait,
}

impl Mode {
    /// What the user types for it.
    pub fn word(self) -> &'static str {
        match self {
            Mode::Cpu => "cpu",
            Mode::Wall => "wall",
            Mode::Wait => "wait",
        }
    }
}
