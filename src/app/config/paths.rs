//! Which directories may be a project's own: never the root, a home, or a place that holds something of the bot.

use std::path::{Component, Path, PathBuf};

/// Why a path cannot be a project's own directory.
///
/// `path` is lexical: it may lie in a sandbox on another machine. Where `real` tells that the sandbox is this machine,
/// symbolic links are followed, so that a link to the root is the root.
pub(super) fn objection(path: &str, real: bool, home: Option<&Path>) -> Option<String> {
    if !(path.starts_with('/') || path == "~" || path.starts_with("~/")) {
        return Some("must be absolute or begin with ~/".to_owned());
    }
    if Path::new(path)
        .components()
        .any(|part| part == Component::ParentDir)
    {
        return Some("must not go up by ..".to_owned());
    }
    let place = located(path, real);
    let text = place.to_string_lossy();
    if text == "/" {
        return Some("is the root of the machine, which is never a project".to_owned());
    }
    let below = |parent: &str| place.parent() == Some(Path::new(parent));
    let is_home = text == "~"
        || text == "/root"
        || text == "/home"
        || below("/home")
        || home.is_some_and(|home| home.starts_with(&place));
    is_home.then(|| "is a home directory: name a directory inside of it".to_owned())
}

/// Returns the path without double slashes, `.` and a slash at the end; links followed if it is a path of this machine.
pub(super) fn located(path: &str, real: bool) -> PathBuf {
    let tidy: PathBuf = Path::new(path)
        .components()
        .filter(|part| *part != Component::CurDir)
        .collect();
    match real {
        true => tidy.canonicalize().unwrap_or(tidy),
        false => tidy,
    }
}

/// Returns whether one of the two holds the other, or both are the same.
pub(super) fn overlap(one: &Path, other: &Path) -> bool {
    one.starts_with(other) || other.starts_with(one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_and_homes_are_never_projects() {
        let home = Some(Path::new("/var/lib/innkeeper"));
        for path in [
            "/",
            "//",
            "/.",
            "~",
            "~/",
            "/root",
            "/root/",
            "/home",
            "/home/ada",
            "/home/ada/.",
            "/home//ada",
            "/var/lib/innkeeper",
            "/var/lib",
            "/var",
            "site",
            "./site",
            "",
            "~ada/site",
            "/srv/../",
            "/srv/site/../..",
            "~/..",
        ] {
            assert!(objection(path, false, home).is_some(), "{path:?}");
        }
    }

    #[test]
    fn a_directory_of_its_own_is_fine() {
        let home = Some(Path::new("/var/lib/innkeeper"));
        for path in [
            "/srv/site",
            "~/site",
            "/home/ada/site",
            "/root/site",
            "/var/lib/innkeeper/site",
            "/srv/site..old",
            "/srv/site/",
        ] {
            assert_eq!(objection(path, false, home), None, "{path:?}");
        }
    }

    #[test]
    fn a_link_to_the_root_is_the_root_where_the_sandbox_is_this_machine() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("site");
        std::os::unix::fs::symlink("/", &link).unwrap();
        let link = link.to_str().unwrap();
        assert!(objection(link, true, None).is_some());
        assert_eq!(objection(link, false, None), None);
    }
}
