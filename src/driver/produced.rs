//! Looks for the files that a turn made: one bounded search, by the account itself, after the turn.
//!
//! It must never follow a symlink, give a file with a second link (it could be anybody's), or take long in a large
//! workspace.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use crate::domain::project::Collect;
use crate::sandbox::{Exec, Sandbox, SandboxError, shell};
use crate::turn::event::{Collected, Found};

use super::turn_directory::Run;

/// Files that a search gives at most, of each place.
const MOST: usize = 200;
/// Bytes of paths that a search may print.
const OUTPUT: usize = 2 * 1024 * 1024;
/// What the shell may take for two searches of 10 s each.
const LIMIT: Duration = Duration::from_secs(30);

/// Defines `search BASE [MARKER]`: paths of regular files with one link that changed after the marker was made, each
/// ended by NUL, in order; first `//`, unless the search was cut short. Change time is compared, because a copied or
/// unpacked file may say any modification time. Names that begin with a dot are never taken (the CLI leaves such stubs
/// behind when killed, measured), nor what package managers and compilers fill.
const SEARCH: &str = r#"search() {
  { timeout 10 find "$1" -mindepth 1 -maxdepth 8 \( -name '.*' -o -type d \( -name node_modules \
    -o -name bower_components -o -name target -o -name venv -o -name env -o -name __pycache__ \
    -o -name site-packages \) \) -prune -o -type f -links 1 ${2:+-newercm "$2"} -print0 2>/dev/null
    [ $? = 124 ] || printf '//\0'
  } | LC_ALL=C sort -z
}
base() { there=$(cd -P -- "$1" 2>/dev/null && pwd -P; printf x); there=${there%x}; there=${there%?}; }
"#;

/// Prints, for outbox and workspace, the canonical path of the place and the sizes and paths found, a NUL after each.
const LOOK: &str = r#"take DIR OUT WORK HOW
dir=$(cd -P -- "$DIR" && pwd -P) && [ -e "$dir/start" ] || exit 44
sized() { head -z -n 202 | xargs -0 -r stat --printf '%s %n\0' -- 2>/dev/null; }
base "$OUT"; printf '%s\0' "$there"
[ -z "$there" ] || search "$there" "$dir/start" | sized
printf '\0'
[ "$HOW" != outbox ] || exit 0
base "$WORK"; printf '%s\0' "$there"
[ -n "$there" ] || exit 0
if [ "$HOW" = all ]; then search "$there" "$dir/start" | sized
elif [ -e "$dir/before" ]; then
  search "$there" "$dir/start" | LC_ALL=C comm -z -23 - "$dir/before" | sized
fi
exit 0
"#;

/// Lists what is there before the turn. The list counts only if it is complete. The `//` that says so is left out of
/// it, so that it stays in what the later comparison gives.
const NOTE: &str = r#"umask 077
take DIR WORK
mkdir -p -- "$DIR" && dir=$(cd -P -- "$DIR" && pwd -P) || exit 1
[ ! -e "$dir/before" ] || exit 0
base "$WORK"
[ -n "$there" ] || { : >"$dir/before"; exit; }
search "$there" '' >"$dir/before.new" || exit 1
[ "$(head -z -n 1 "$dir/before.new" | tr '\0' '\n')" = // ] || { rm -f "$dir/before.new"; exit 0; }
tail -z -n +2 "$dir/before.new" >"$dir/before.all" && rm -f "$dir/before.new" && mv -f "$dir/before.all" "$dir/before"
"#;

/// Searches for produced files.
#[derive(Debug)]
pub struct Produced {
    sandbox: Arc<dyn Sandbox>,
}

impl Produced {
    /// Returns a searcher in this sandbox.
    pub fn new(sandbox: Arc<dyn Sandbox>) -> Produced {
        Produced { sandbox }
    }

    /// Lists the workspace before the turn starts; needed for [`Collect::New`] only. Existing is told by path and not
    /// by birth time: many programs save by writing a new file over the old one. Safe to repeat: the first list stays.
    pub async fn note(&self, run: &Run, workdir: &str) -> Result<(), SandboxError> {
        let vars = vec![
            ("DIR", shell::path(&run.directory())?.into_bytes()),
            ("WORK", shell::path(workdir)?.into_bytes()),
        ];
        let exec = command(NOTE, vars);
        match self.sandbox.exec(&run.account, exec).await?.code {
            0 => Ok(()),
            code => Err(SandboxError::Failed(format!(
                "{workdir} could not be listed (exit code {code})"
            ))),
        }
    }

    /// Looks for what the turn made: in the outbox first, then in the workspace. Without a complete list of what was
    /// there before, nothing of the workspace counts as new, and `more` is set.
    pub async fn look(
        &self,
        run: &Run,
        workdir: &str,
        collect: Collect,
    ) -> Result<Collected, SandboxError> {
        let how = match collect {
            Collect::All => "all",
            Collect::New => "new",
            Collect::Outbox => "outbox",
        };
        let vars = vec![
            ("DIR", shell::path(&run.directory())?.into_bytes()),
            ("OUT", shell::path(&run.outbox())?.into_bytes()),
            ("WORK", shell::path(workdir)?.into_bytes()),
            ("HOW", how.into()),
        ];
        let done = self.sandbox.exec(&run.account, command(LOOK, vars)).await?;
        match done.code {
            0 => Ok(read(&done.out)),
            44 => Err(SandboxError::Gone(run.directory())),
            code => Err(SandboxError::Failed(format!(
                "the search for files ended with exit code {code}"
            ))),
        }
    }
}

fn command(script: &str, vars: Vec<(&'static str, Vec<u8>)>) -> Exec {
    Exec {
        script: shell::script(&format!("{SEARCH}{script}")),
        vars,
        limit: LIMIT,
        most: OUTPUT,
    }
}

/// Reads what the search printed; a file in both places counts once.
fn read(out: &[u8]) -> Collected {
    let mut collected = Collected::default();
    let mut seen = HashSet::new();
    let mut records = out.split(|byte| *byte == 0);
    while let Some(base) = records.next() {
        // Empty: the end of the last place, or a place that is not there.
        if base.is_empty() {
            continue;
        }
        let mut complete = false;
        let mut found = 0;
        for record in records.by_ref().take_while(|record| !record.is_empty()) {
            match entry(record, base) {
                Some(Entry::Complete) => complete = true,
                Some(Entry::File(_)) if found == MOST => collected.more = true,
                Some(Entry::File(file)) => {
                    found += 1;
                    if seen.insert(file.path.clone()) {
                        collected.files.push(file);
                    }
                }
                // A name that is no UTF-8 cannot be shown or sent.
                None => collected.more = true,
            }
        }
        collected.more |= !complete;
    }
    collected
}

enum Entry {
    /// The search was not cut short.
    Complete,
    File(Found),
}

/// Reads `SIZE PATH`.
fn entry(record: &[u8], base: &[u8]) -> Option<Entry> {
    let (size, path) = std::str::from_utf8(record).ok()?.split_once(' ')?;
    if path == "//" {
        return Some(Entry::Complete);
    }
    let base = std::str::from_utf8(base).ok()?;
    let shown = path.strip_prefix(base)?.trim_start_matches('/');
    Some(Entry::File(Found {
        path: path.to_owned(),
        shown: shown.to_owned(),
        size: size.parse().ok()?,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(out: &[u8]) -> (Vec<String>, bool) {
        let collected = read(out);
        let shown = collected.files.into_iter().map(|file| file.shown);
        (shown.collect(), collected.more)
    }

    #[test]
    fn the_outbox_comes_first_and_odd_names_survive() {
        let out = b"/h/out\x000 //\x005 /h/out/a b\x00\x00/h/w\x000 //\x001 /h/w/x\ny/z\x002 /h/w/\xc3\xa9\x00";
        let (files, more) = shown(out);
        assert_eq!(files, ["a b", "x\ny/z", "é"]);
        assert!(!more);
    }

    #[test]
    fn a_missing_place_is_no_fault_and_a_cut_search_says_so() {
        assert_eq!(shown(b"\x00\x00/h/w\x000 //\x00"), (vec![], false));
        assert_eq!(shown(b"\x00\x00\x00"), (vec![], false));
        assert_eq!(
            shown(b"\x00\x00/h/w\x001 /h/w/a\x00"),
            (vec!["a".to_owned()], true)
        );
        // New files, but no list of the old ones.
        assert_eq!(shown(b"\x00\x00/h/w\x00"), (vec![], true));
    }

    #[test]
    fn a_file_found_twice_counts_once_and_one_too_many_is_told() {
        let out = b"/h\x000 //\x001 /h/a\x00\x00/h\x000 //\x001 /h/a\x00";
        assert_eq!(shown(out), (vec!["a".to_owned()], false));
        let mut out = b"/h\x000 //\x00".to_vec();
        for n in 0..=MOST {
            out.extend_from_slice(format!("1 /h/{n:04}\0").as_bytes());
        }
        let (files, more) = shown(&out);
        assert_eq!(files.len(), MOST);
        assert!(more);
    }

    #[test]
    fn a_name_that_is_no_text_is_left_out_and_told() {
        assert_eq!(shown(b"/h\x000 //\x001 /h/\xff\x00"), (vec![], true));
    }
}
