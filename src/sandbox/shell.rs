//! The few words that every script of ours shares: how bytes get into it, and how paths are spelled.
//!
//! Nothing that varies ever becomes part of a script's text: it is in process lists and logs.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::{Exec, SandboxError};

/// How large the pieces are that a longer text is cut into: Linux bounds one environment string to 128 KiB, and base64
/// adds a third.
pub const PIECE: usize = 90 * 1024;

/// The most bytes that fit into a variable, its name included.
const ROOM: usize = 96 * 1024 - 64;

/// Shell functions for scripts: `inn NAME` writes a variable's bytes, `take NAME…` makes shell variables of the same
/// names, `all X` writes the bytes of `X0`, `X1`, … one after the other.
const PRELUDE: &str = r#"inn() {
  eval "v=\${LC_INN_$1-}"
  case $((${#v} % 4)) in 2) v=$v==;; 3) v=$v=;; esac
  printf %s "$v" | tr -- -_ +/ | base64 -d
}
take() { for n; do eval "$n=\$(inn $n; printf x)"; eval "$n=\${$n%x}"; done; }
all() {
  i=0
  while eval "[ -n \"\${LC_INN_$1$i-}\" ]"; do inn "$1$i" || return; i=$((i + 1)); done
}
"#;

/// Returns a script that begins with the functions `inn`, `take` and `all`.
pub fn script(body: &str) -> String {
    format!("{PRELUDE}{body}")
}

/// Spells a path for a script that runs in the account's home: `~/x` becomes `./x`, absolute paths stay.
pub fn path(path: &str) -> Result<String, SandboxError> {
    let spelled = match path.strip_prefix('~') {
        Some("") => Some("./".to_owned()),
        Some(rest) if rest.starts_with('/') => Some(format!(".{rest}")),
        None if path.starts_with('/') => Some(path.to_owned()),
        _ => None,
    };
    spelled
        .filter(|spelled| !spelled.contains('\0'))
        .ok_or_else(|| {
            SandboxError::Failed(format!(
                "the path {path:?} is neither absolute nor begins with ~/"
            ))
        })
}

/// Writes a word so that a shell reads it back unchanged.
pub fn quote(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Returns the variables of a command as the shell will find them, or says which one is too large.
pub(super) fn environment(exec: &Exec) -> Result<Vec<(String, String)>, SandboxError> {
    exec.vars
        .iter()
        .map(|(name, bytes)| {
            if bytes.len() > ROOM {
                return Err(SandboxError::Failed(format!(
                    "the variable {name} has {} bytes, and {ROOM} is the most",
                    bytes.len()
                )));
            }
            Ok((format!("LC_INN_{name}"), URL_SAFE_NO_PAD.encode(bytes)))
        })
        .collect()
}

/// Turns what a command left behind into an error where that is what it means.
pub(super) fn judge(exec: &Exec, code: i32, err: &str) -> Result<(), SandboxError> {
    // What `timeout` says of itself; no script of ours ends so.
    if code == 124 {
        return Err(SandboxError::Slow(exec.limit));
    }
    let full = ["No space left on device", "Disk quota exceeded"];
    if code != 0 && full.iter().any(|words| err.contains(words)) {
        return Err(SandboxError::Full);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_of_the_home_or_absolute() {
        for (given, spelled) in [
            ("~", Some("./")),
            ("~/a b", Some("./a b")),
            ("/srv/x", Some("/srv/x")),
            ("x", None),
            ("", None),
            ("~other/x", None),
            ("/a\0b", None),
        ] {
            assert_eq!(path(given).ok().as_deref(), spelled, "{given:?}");
        }
    }

    #[test]
    fn a_quoted_word_has_no_loose_quote() {
        assert_eq!(quote("it's"), r"'it'\''s'");
        assert_eq!(quote(""), "''");
    }

    #[test]
    fn a_variable_that_is_too_large_is_refused_by_name() {
        let exec = Exec {
            script: String::new(),
            vars: vec![("BIG", vec![0; ROOM + 1])],
            limit: std::time::Duration::from_secs(1),
            most: 1,
        };
        let error = environment(&exec).unwrap_err().to_string();
        assert!(error.contains("BIG"), "{error}");
    }

    #[test]
    fn a_full_disk_and_a_slow_command_are_told_apart() {
        let exec = Exec {
            script: String::new(),
            vars: vec![],
            limit: std::time::Duration::from_secs(1),
            most: 1,
        };
        assert!(matches!(judge(&exec, 124, ""), Err(SandboxError::Slow(_))));
        assert!(matches!(
            judge(&exec, 1, "base64: write error: No space left on device"),
            Err(SandboxError::Full)
        ));
        assert!(judge(&exec, 0, "No space left on device").is_ok());
        assert!(judge(&exec, 3, "").is_ok());
    }
}
