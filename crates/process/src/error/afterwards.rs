//! What is said, with an error of a remote call, of the thread that made it. Used by `inject::remote_call::waiting` and
//! `inject::remote_call`.

use super::Error;

/// What has become of a thread whose call for us failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Afterwards {
    /// Nothing was read of it since.
    Unknown,
    /// Its registers were read, and are those that it had before the call.
    Back,
    /// It is still in that call. Its return frame brings it back when the call returns.
    InCall,
}

impl std::fmt::Display for Afterwards {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Afterwards::Unknown => "what its thread does now is not known",
            Afterwards::Back => "the thread is back where it was",
            Afterwards::InCall => {
                "the thread is still in that call, and goes on as before when the call returns"
            }
        })
    }
}

impl Error {
    /// The same error, with what has become of the thread that made a call for us.
    #[must_use]
    pub fn with_thread(mut self, now: Afterwards) -> Self {
        if let Error::RemoteFault { thread, .. } | Error::RemoteTimeout { thread, .. } = &mut self {
            *thread = now;
        }
        self
    }
}
