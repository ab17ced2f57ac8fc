//! Bytes of the agent's stream become whole lines.
//!
//! Memory stays bounded by the given size whatever comes: a line beyond it is counted, not kept.

/// Bytes that are kept of a line that is too long: enough to tell what kind of line it was.
const HEAD: usize = 4096;

/// One line, without its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// All of it; never empty.
    Whole(Vec<u8>),
    /// More than may be kept.
    TooLong {
        /// Bytes of the line, its end not counted.
        bytes: u64,
        /// Its first bytes.
        head: Vec<u8>,
    },
}

/// Cuts a stream into lines, however its bytes arrive.
#[derive(Clone, Debug)]
pub struct Lines {
    most: usize,
    kept: Vec<u8>,
    bytes: u64,
}

impl Lines {
    /// Makes a cutter that keeps at most `most` bytes of a line.
    pub fn new(most: usize) -> Lines {
        Lines {
            most,
            kept: Vec::new(),
            bytes: 0,
        }
    }

    /// Takes the next bytes and returns the lines that they complete.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<Line> {
        let mut lines = Vec::new();
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            self.take(&rest[..end]);
            lines.extend(self.finish());
            rest = &rest[end + 1..];
        }
        self.take(rest);
        lines
    }

    /// Returns what stands after the last line end, once the stream is over.
    pub fn finish(&mut self) -> Option<Line> {
        let bytes = std::mem::take(&mut self.bytes);
        let mut kept = std::mem::take(&mut self.kept);
        if self.too_long(bytes) {
            return Some(Line::TooLong { bytes, head: kept });
        }
        if kept.last() == Some(&b'\r') {
            kept.pop();
        }
        (!kept.is_empty()).then_some(Line::Whole(kept))
    }

    fn take(&mut self, piece: &[u8]) {
        self.bytes = self.bytes.saturating_add(piece.len() as u64);
        let most = if self.too_long(self.bytes) {
            self.most.min(HEAD)
        } else {
            self.most
        };
        let room = most.saturating_sub(self.kept.len());
        self.kept.extend_from_slice(&piece[..piece.len().min(room)]);
        if self.kept.len() > most {
            self.kept.truncate(most);
            self.kept.shrink_to_fit();
        }
    }

    fn too_long(&self, bytes: u64) -> bool {
        bytes > self.most as u64
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(most: usize, pieces: &[&[u8]]) -> Vec<Line> {
        let mut lines = Lines::new(most);
        let mut found: Vec<Line> = pieces.iter().flat_map(|piece| lines.push(piece)).collect();
        found.extend(lines.finish());
        found
    }

    #[test]
    fn line_ends_of_both_kinds_are_taken_off_and_empty_lines_skipped() {
        let found = all(100, &[b"one\r\n\n\r\ntwo\nthr", b"ee"]);
        let expected: Vec<Line> = [b"one".as_slice(), b"two", b"three"]
            .map(|line| Line::Whole(line.to_vec()))
            .into();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_huge_line_is_counted_and_its_neighbours_survive() {
        let mut lines = Lines::new(64 * 1024);
        assert_eq!(lines.push(b"{\"type\":\"user\",").len(), 0);
        for _ in 0..20_000 {
            assert_eq!(lines.push(&[b'x'; 1024]).len(), 0);
            assert!(lines.kept.capacity() <= 256 * 1024);
        }
        let found = lines.push(b"\nafter\n");
        let [Line::TooLong { bytes, head }, Line::Whole(after)] = found.as_slice() else {
            panic!("{found:?}");
        };
        assert_eq!(*bytes, 15 + 20_000 * 1024);
        assert_eq!(head.len(), HEAD);
        assert!(head.starts_with(b"{\"type\":\"user\","));
        assert_eq!(after, b"after");
    }

    #[test]
    fn a_line_of_exactly_the_size_is_whole() {
        assert_eq!(all(3, &[b"abc\n"]), [Line::Whole(b"abc".to_vec())]);
        assert_eq!(
            all(3, &[b"abcd\n"]),
            [Line::TooLong {
                bytes: 4,
                head: b"abc".to_vec()
            }]
        );
    }

    proptest! {
        #[test]
        fn any_cutting_gives_the_same_lines(
            stream in prop::collection::vec(prop_oneof![3 => Just(b'a'), 1 => Just(b'\n'), 1 => Just(b'\r')], 0..200),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
            most in 1_usize..12,
        ) {
            let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
            ends.sort_unstable();
            let mut pieces = Vec::new();
            let mut from = 0;
            for end in ends {
                pieces.push(&stream[from..end]);
                from = end;
            }
            pieces.push(&stream[from..]);
            prop_assert_eq!(all(most, &pieces), all(most, &[&stream]));
        }
    }
}
