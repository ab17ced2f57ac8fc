//! The sessions of the scripted agent: one file each, in the directory and under the rules of the real one.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::flags::Given;

/// One conversation.
pub(super) struct Session {
    file: PathBuf,
    /// Ids of all messages so far; one that comes again is not listened to (measured on the real program).
    seen: Vec<String>,
}

/// Why a session cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unusable {
    /// It should be new and is not.
    Taken,
    /// It should be there and is not.
    Unknown,
}

impl Session {
    /// Finds or makes the session, below the agent's directory and for this workspace.
    pub(super) fn open(
        given: &Given,
        config: &Path,
        workspace: &Path,
    ) -> Result<Session, Unusable> {
        let dashed: String = workspace
            .to_string_lossy()
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
            .collect();
        let file = config
            .join("projects")
            .join(dashed)
            .join(format!("{}.jsonl", given.session));
        match (std::fs::read_to_string(&file), given.resumes) {
            (Ok(text), true) => Ok(Session {
                file,
                seen: text.lines().filter_map(id_of).collect(),
            }),
            (Err(_), true) => Err(Unusable::Unknown),
            (Ok(_), false) => Err(Unusable::Taken),
            (Err(_), false) => Ok(Session {
                file,
                seen: Vec::new(),
            }),
        }
    }

    /// Writes a message down; `false`: the session had it already.
    pub(super) fn hear(&mut self, id: &str) -> std::io::Result<bool> {
        if self.seen.iter().any(|seen| seen == id) {
            return Ok(false);
        }
        if let Some(folder) = self.file.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let line = json!({"type": "user", "uuid": id}).to_string() + "\n";
        OpenOptions::new()
            .append(true)
            .create(true)
            .open(&self.file)?
            .write_all(line.as_bytes())?;
        self.seen.push(id.to_owned());
        Ok(true)
    }

    /// Returns how many messages the session has had.
    pub(super) fn count(&self) -> usize {
        self.seen.len()
    }
}

fn id_of(line: &str) -> Option<String> {
    let value: Value = serde_json::from_str(line).ok()?;
    Some(value["uuid"].as_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(resumes: bool) -> Given {
        Given {
            session: "s1".to_owned(),
            resumes,
            ..Given::default()
        }
    }

    #[test]
    fn a_session_is_made_once_and_resumed_where_it_was_made() {
        let folder = tempfile::tempdir().unwrap();
        let open = |resumes, workspace: &str| {
            Session::open(&given(resumes), folder.path(), Path::new(workspace))
        };
        assert_eq!(open(true, "/w").err(), Some(Unusable::Unknown));
        let mut session = open(false, "/w").unwrap();
        assert!(session.hear("9-1").unwrap());
        assert_eq!(open(false, "/w").err(), Some(Unusable::Taken));
        assert_eq!(open(true, "/other").err(), Some(Unusable::Unknown));
        let mut again = open(true, "/w").unwrap();
        assert!(!again.hear("9-1").unwrap());
        assert!(again.hear("9-2").unwrap());
        assert_eq!(again.count(), 2);
    }
}
