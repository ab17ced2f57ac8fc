//! Reads `agent.shared_skills` from the bot's machine.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::driver::skills::{SkillFile, Skills};

/// The most bytes and files of all shared skills together: each is carried into every account.
const BYTES: usize = 8 * 1024 * 1024;
const FILES: usize = 300;

/// Reads the skills in these directories: each is one skill (it holds a `SKILL.md`) or holds skills. Symlinks are not followed.
pub fn read(directories: &[PathBuf]) -> Result<Skills, String> {
    let mut files: Vec<SkillFile> = Vec::new();
    for directory in directories {
        let skills = if directory.join("SKILL.md").is_file() {
            vec![directory.clone()]
        } else {
            entries(directory)?
                .into_iter()
                .filter(|entry| entry.join("SKILL.md").is_file())
                .collect()
        };
        if skills.is_empty() {
            return Err(format!(
                "{} holds no skill: a skill is a directory with a SKILL.md",
                directory.display()
            ));
        }
        for skill in skills {
            take(&skill, &name(&skill)?, &mut files)?;
        }
    }
    for (at, file) in files.iter().enumerate() {
        if files[..at].iter().any(|other| other.path == file.path) {
            return Err(format!(
                "two directories hold {}: rename one of the skills",
                file.path
            ));
        }
    }
    let bytes: usize = files.iter().map(|file| file.bytes.len()).sum();
    if files.len() > FILES || bytes > BYTES {
        return Err(format!(
            "they have {} files with {bytes} bytes; at most {FILES} files and {BYTES} bytes are shared",
            files.len()
        ));
    }
    Ok(Skills::new(files))
}

/// Takes what is in a skill's directory; names that begin with a dot are left out.
fn take(directory: &Path, under: &str, files: &mut Vec<SkillFile>) -> Result<(), String> {
    for entry in entries(directory)? {
        let path = format!("{under}/{}", name(&entry)?);
        let meta = fs::symlink_metadata(&entry).map_err(|error| fault(&entry, &error))?;
        if meta.is_dir() {
            take(&entry, &path, files)?;
        } else if meta.is_file() {
            let bytes = fs::read(&entry).map_err(|error| fault(&entry, &error))?;
            files.push(SkillFile {
                path,
                bytes: bytes.into(),
                runs: meta.permissions().mode() & 0o111 != 0,
            });
        }
        if files.len() > 2 * FILES {
            return Err(format!(
                "there are more than {FILES} files in {}",
                directory.display()
            ));
        }
    }
    Ok(())
}

fn entries(directory: &Path) -> Result<Vec<PathBuf>, String> {
    let mut entries: Vec<PathBuf> = fs::read_dir(directory)
        .map_err(|error| fault(directory, &error))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            !path
                .file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with('.'))
        })
        .collect();
    entries.sort();
    Ok(entries)
}

fn name(path: &Path) -> Result<String, String> {
    path.file_name()
        .and_then(|name| name.to_str())
        .filter(|name| !name.contains('\n'))
        .map(str::to_owned)
        .ok_or_else(|| format!("{} has no name that can be carried over", path.display()))
}

fn fault(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_a_skill_or_holds_skills() {
        let place = tempfile::tempdir().unwrap();
        let write = |path: &str| {
            let path = place.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        };
        write("many/report/SKILL.md");
        write("many/report/scripts/run.sh");
        write("many/report/.git/config");
        write("many/readme.txt");
        write("one/SKILL.md");
        std::os::unix::fs::symlink("/etc/passwd", place.path().join("one/passwd")).unwrap();
        let many = place.path().join("many");
        let one = place.path().join("one");
        let skills = read(&[many.clone(), one.clone()]).unwrap();
        assert_eq!(skills.names(), ["shared:report", "shared:one"]);
        assert!(read(&[one.clone(), one]).is_err());
        assert!(read(&[many.join("report/scripts")]).is_err());
        assert!(read(&[]).unwrap().is_empty());
    }
}
