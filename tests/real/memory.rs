//! What stands in a process's memory, read from outside as root.

use std::fs::File;
use std::os::unix::fs::FileExt as _;

const PAGE: u64 = 4096;

/// Pages that are looked at together.
const BLOCK: u64 = 256;

/// Returns for each word whether it stands in the memory of this process; nothing if it is gone.
pub(crate) fn holds(process: i32, words: &[&str]) -> Option<Vec<bool>> {
    let open = |what: &str| File::open(format!("/proc/{process}/{what}")).ok();
    let (memory, pages) = (open("mem")?, open("pagemap")?);
    let map = std::fs::read_to_string(format!("/proc/{process}/maps")).ok()?;
    let mut found = vec![false; words.len()];
    for (start, end) in map.lines().filter_map(readable) {
        let mut rest = Vec::new();
        for first in (start / PAGE..end / PAGE).step_by(BLOCK as usize) {
            let last = (first + BLOCK).min(end / PAGE);
            for (from, to) in present(&pages, first, last) {
                if from != first {
                    rest.clear();
                }
                let mut bytes = vec![0; ((to - from) * PAGE) as usize];
                if memory.read_exact_at(&mut bytes, from * PAGE).is_err() {
                    continue;
                }
                rest.extend_from_slice(&bytes);
                look(&rest, words, &mut found);
                // A word may stand across the border of two blocks.
                let longest = words.iter().map(|word| word.len()).max().unwrap_or(0);
                rest.drain(..rest.len().saturating_sub(longest));
                if to != last {
                    rest.clear();
                }
            }
        }
    }
    Some(found)
}

/// Returns where a region of memory that can be read begins and ends.
fn readable(line: &str) -> Option<(u64, u64)> {
    let (range, rest) = line.split_once(' ')?;
    // The kernel's own pages have nothing of the process.
    if !rest.starts_with('r') || rest.contains("[vvar") || rest.contains("[vsyscall") {
        return None;
    }
    let (start, end) = range.split_once('-')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    Some((number(start)?, number(end)?))
}

/// Returns the runs of pages that are really there: a program may reserve more than any machine has.
fn present(pages: &File, first: u64, last: u64) -> Vec<(u64, u64)> {
    let mut entries = vec![0; ((last - first) * 8) as usize];
    if pages.read_exact_at(&mut entries, first * 8).is_err() {
        return Vec::new();
    }
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for (index, entry) in entries.chunks_exact(8).enumerate() {
        // Bit 63: in memory, bit 62: swapped out. The top byte has both.
        if entry[7] & 0xc0 == 0 {
            continue;
        }
        let page = first + index as u64;
        match runs.last_mut() {
            Some((_, end)) if *end == page => *end += 1,
            _ => runs.push((page, page + 1)),
        }
    }
    runs
}

fn look(bytes: &[u8], words: &[&str], found: &mut [bool]) {
    for (word, found) in words.iter().zip(found) {
        let (first, word) = (word.as_bytes()[0], word.as_bytes());
        let mut at = bytes;
        while let Some(next) = at.iter().position(|byte| *byte == first) {
            at = &at[next..];
            *found |= at.starts_with(word);
            at = &at[1..];
        }
    }
}
