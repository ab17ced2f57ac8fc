//! Skills that the owner gives to every agent: carried into the sandbox once for each account, as the plugin `shared`.
//!
//! They lie outside the house's own directory, which is denied whole (a deny beats an allow, measured), and the agent may only
//! read them.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;

use crate::domain::ids::AccountId;
use crate::sandbox::{Exec, Sandbox, SandboxError, shell};

/// One file of a skill.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SkillFile {
    /// Its path, `NAME/…`, the skill's name first.
    pub path: String,
    /// What it holds.
    pub bytes: Bytes,
    /// Whether it is a program.
    pub runs: bool,
}

/// The shared skills.
#[derive(Debug, Default)]
pub struct Skills {
    files: Vec<SkillFile>,
    names: Vec<String>,
    directory: String,
    there: Mutex<HashSet<AccountId>>,
}

/// Says what the plugin is called, and so its skills.
const MANIFEST: &str = r#"{"name": "shared", "version": "1.0.0", "description": "Skills that the owner of the house shares"}"#;

/// Says whether a copy is whole.
const LOOK: &str = r#"take DIR
[ -e "$DIR/.whole" ]
"#;

/// Lets programs run, and says that the copy is whole.
const FINISH: &str = r#"take DIR
cd -- "$DIR" || exit 1
inn RUNS | while read -r file; do chmod u+x -- "./$file" || exit 1; done || exit 1
: >.whole
"#;

impl Skills {
    /// Returns these files as skills. The name of their directory follows from what they hold, so a change is a new copy.
    pub fn new(files: Vec<SkillFile>) -> Skills {
        let mut names: Vec<String> = Vec::new();
        for file in &files {
            if let Some((name, "SKILL.md")) = file.path.split_once('/') {
                names.push(format!("shared:{name}"));
            }
        }
        let mut hasher = DefaultHasher::new();
        files.hash(&mut hasher);
        Skills {
            directory: format!("~/io/shared-{:016x}", hasher.finish()),
            files,
            names,
            there: Mutex::default(),
        }
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Returns their names, as the agent calls them.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns the plugin's directory, `~/…`.
    pub fn directory(&self) -> &str {
        &self.directory
    }

    /// Makes sure that an account has them. Asked once for each account; safe to repeat.
    pub async fn bring(
        &self,
        sandbox: &dyn Sandbox,
        account: &AccountId,
    ) -> Result<(), SandboxError> {
        if self.is_empty() || self.lock().contains(account) {
            return Ok(());
        }
        if self.run(sandbox, account, LOOK, vec![]).await? != 0 {
            let manifest = format!("{}/.claude-plugin/plugin.json", self.directory);
            sandbox
                .put(account, &manifest, Bytes::from_static(MANIFEST.as_bytes()))
                .await?;
            for file in &self.files {
                let path = format!("{}/skills/{}", self.directory, file.path);
                sandbox.put(account, &path, file.bytes.clone()).await?;
            }
            let runs: String = self
                .files
                .iter()
                .filter(|file| file.runs)
                .map(|file| format!("skills/{}\n", file.path))
                .collect();
            let code = self
                .run(sandbox, account, FINISH, vec![("RUNS", runs.into_bytes())])
                .await?;
            if code != 0 {
                return Err(SandboxError::Failed(format!(
                    "the shared skills could not be put into {} (exit code {code})",
                    self.directory
                )));
            }
        }
        self.lock().insert(account.clone());
        Ok(())
    }

    async fn run(
        &self,
        sandbox: &dyn Sandbox,
        account: &AccountId,
        script: &str,
        mut vars: Vec<(&'static str, Vec<u8>)>,
    ) -> Result<i32, SandboxError> {
        vars.push(("DIR", shell::path(&self.directory)?.into_bytes()));
        let exec = Exec {
            script: shell::script(script),
            vars,
            limit: Duration::from_secs(30),
            most: 4096,
        };
        Ok(sandbox.exec(account, exec).await?.code)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashSet<AccountId>> {
        // A panic while the lock was held cannot leave the set half changed.
        self.there.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> SkillFile {
        SkillFile {
            path: path.to_owned(),
            bytes: Bytes::from(text.to_owned()),
            runs: false,
        }
    }

    #[test]
    fn a_skill_is_named_by_its_directory_and_a_change_is_a_new_copy() {
        let one = Skills::new(vec![
            file("report/SKILL.md", "a"),
            file("report/data/SKILL.md", "b"),
        ]);
        let other = Skills::new(vec![
            file("report/SKILL.md", "a"),
            file("report/data/SKILL.md", "c"),
        ]);
        assert_eq!(one.names(), ["shared:report"]);
        assert_ne!(one.directory(), other.directory());
        assert!(one.directory().starts_with("~/io/shared-"));
        assert!(Skills::default().is_empty());
    }
}
