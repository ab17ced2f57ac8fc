//! Names of files as Discord takes them: ASCII, no control characters, none twice in a message.

use std::collections::HashSet;

use crate::driver::ports::Upload;

/// The longest name that is sent.
const LONGEST: usize = 100;

/// Gives each file a name that Discord shows unchanged.
pub(super) fn clean(files: Vec<Upload>) -> Vec<Upload> {
    let mut taken = HashSet::new();
    let files = files.into_iter().map(|file| {
        let name = unused(&ascii(&file.name), &taken);
        taken.insert(name.to_ascii_lowercase());
        Upload { name, ..file }
    });
    files.collect()
}

/// Returns the last part of a path in letters, digits, `.`, `-` and `_`.
fn ascii(name: &str) -> String {
    let last = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let kept: String = last
        .chars()
        .map(|c| match c {
            c if c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_') => c,
            _ => '_',
        })
        .collect();
    let (stem, extension) = split(&kept);
    let stem = stem.trim_matches(['.', '_', '-']);
    let stem = if stem.is_empty() { "file" } else { stem };
    let room = LONGEST.saturating_sub(extension.len());
    format!("{}{extension}", &stem[..stem.len().min(room)])
}

/// Splits off the extension, its dot included; one that is long or blank is none.
fn split(name: &str) -> (&str, &str) {
    match name.rfind('.') {
        Some(at) if (2..=16).contains(&(name.len() - at)) => name.split_at(at),
        _ => (name, ""),
    }
}

fn unused(name: &str, taken: &HashSet<String>) -> String {
    let (stem, extension) = split(name);
    let numbered = (2..).map(|number| format!("{stem}-{number}{extension}"));
    std::iter::once(name.to_owned())
        .chain(numbered)
        .find(|name| !taken.contains(&name.to_ascii_lowercase()))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use proptest::prelude::*;

    fn cleaned(names: &[&str]) -> Vec<String> {
        let files = names.iter().map(|name| Upload {
            name: (*name).to_owned(),
            bytes: Bytes::new(),
        });
        let files = clean(files.collect());
        files.into_iter().map(|file| file.name).collect()
    }

    #[test]
    fn names_are_cleaned() {
        let table = [
            ("plot.png", "plot.png"),
            ("out/my plot.png", "my_plot.png"),
            ("../../.env", "file.env"),
            ("été.csv", "t.csv"),
            ("図.svg", "file.svg"),
            ("a\nb\0.txt", "a_b.txt"),
            ("", "file"),
            ("@everyone.md", "everyone.md"),
            ("_draft_.tar.gz", "draft_.tar.gz"),
        ];
        for (name, expected) in table {
            assert_eq!(cleaned(&[name]), [expected], "{name:?}");
        }
    }

    #[test]
    fn equal_names_are_numbered() {
        assert_eq!(
            cleaned(&["a/x.png", "b/X.png", "x-2.png", "x"]),
            ["x.png", "X-2.png", "x-2-2.png", "x"]
        );
    }

    proptest! {
        #[test]
        fn any_names_become_short_distinct_ascii(names in proptest::collection::vec(".{0,200}", 0..12)) {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let cleaned = cleaned(&names);
            let distinct: HashSet<String> = cleaned.iter().map(|name| name.to_ascii_lowercase()).collect();
            prop_assert_eq!(distinct.len(), names.len());
            for name in cleaned {
                prop_assert!((1..=110).contains(&name.len()));
                prop_assert!(name.bytes().all(|b| b.is_ascii_graphic()));
                prop_assert!(!name.starts_with('.'));
            }
        }
    }
}
