//! Records of TLS 1.3 (RFC 8446, section 5) once hands are shaken: sealed and opened in place, without allocation.
use ring::aead::{Aad, LessSafeKey, Nonce, Tag};

use crate::keys::Secret;

/// Of a record: type, version, length.
pub const HEADER: usize = 5;
/// What a record has beside its content: the header, the content's type, the tag.
pub const OVERHEAD: usize = HEADER + TRAILER;
/// Behind the content: its type, the tag.
pub const TRAILER: usize = 1 + 16;
pub const CONTENT_MAX: usize = 1 << 14;
/// Of what follows a header (5.2).
pub const SEALED_MAX: usize = CONTENT_MAX + 256;

pub const ALERT: u8 = 21;
pub const HANDSHAKE: u8 = 22;
pub const DATA: u8 = 23;

/// One direction's key, and how many records it has sealed or opened.
pub struct Keys {
    secret: Secret,
    key: LessSafeKey,
    iv: [u8; 12],
    sequence: u64,
}

pub enum Opened {
    /// More bytes are needed.
    Part,
    /// A whole record: how long it is, what its content is, and where that ends (it begins behind the header).
    Record { size: usize, of: u8, end: usize },
    /// Not a record of this connection's other side, or not the next one.
    Damaged,
}

impl Keys {
    pub fn new(secret: Secret, sequence: u64) -> Option<Keys> {
        let (key, iv) = (secret.key()?, secret.iv()?);
        Some(Keys { secret, key, iv, sequence })
    }

    /// Those that follow, from their first record on.
    pub fn next(&self) -> Option<Keys> {
        Keys::new(self.secret.next()?, 0)
    }

    pub fn secret(&self) -> &Secret {
        &self.secret
    }

    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// For the next record: no number is ever used twice.
    fn nonce(&mut self) -> Option<Nonce> {
        let mut nonce = self.iv;
        for (byte, number) in nonce[4..].iter_mut().zip(self.sequence.to_be_bytes()) {
            *byte ^= number;
        }
        self.sequence = self.sequence.checked_add(1)?;
        Some(Nonce::assume_unique_for_key(nonce))
    }

    /// Makes a record of what lies behind the header's place; `record` is as long as it will be.
    pub fn seal(&mut self, of: u8, record: &mut [u8]) -> Option<()> {
        let content = record.len().checked_sub(OVERHEAD)?;
        let (header, sealed) = record.split_at_mut(HEADER);
        let (plain, tag) = sealed.split_at_mut(content + 1);
        let made = self.seal_plain(of, header, plain)?;
        tag.copy_from_slice(made.as_ref());
        Some(())
    }

    /// The same of a record in three parts: header, content, trailer. Behind the content is one byte more, which the
    /// cipher needs and which stays as it is.
    pub fn seal_apart(
        &mut self,
        of: u8,
        header: &mut [u8],
        content: &mut [u8],
        trailer: &mut [u8],
    ) -> Option<()> {
        let size = content.len().checked_sub(1)?;
        let behind = content[size];
        let made = self.seal_plain(of, header, content);
        let last = core::mem::replace(&mut content[size], behind);
        trailer[0] = last;
        trailer[1..].copy_from_slice(made?.as_ref());
        Some(())
    }

    /// `plain` is the content and the place of its type.
    fn seal_plain(&mut self, of: u8, header: &mut [u8], plain: &mut [u8]) -> Option<Tag> {
        let content = plain.len().checked_sub(1)?;
        if content > CONTENT_MAX {
            return None;
        }
        let length = ((content + TRAILER) as u16).to_be_bytes();
        header.copy_from_slice(&[DATA, 3, 3, length[0], length[1]]);
        plain[content] = of;
        let nonce = self.nonce()?;
        self.key.seal_in_place_separate_tag(nonce, Aad::from(&*header), plain).ok()
    }

    /// How long the record at the start of `bytes` is; `None` where that is none, 0 where the header is not all there.
    pub fn measure(bytes: &[u8]) -> Option<usize> {
        if bytes.len() < HEADER {
            return Some(0);
        }
        let sealed = usize::from(u16::from_be_bytes([bytes[3], bytes[4]]));
        (bytes[0] == DATA && (TRAILER..=SEALED_MAX).contains(&sealed)).then_some(HEADER + sealed)
    }

    /// Opens the record at the start of `bytes`, in place.
    pub fn open(&mut self, bytes: &mut [u8]) -> Opened {
        let size = match Keys::measure(bytes) {
            None => return Opened::Damaged,
            Some(size) if size == 0 || size > bytes.len() => return Opened::Part,
            Some(size) => size,
        };
        let (header, sealed) = bytes[..size].split_at_mut(HEADER);
        let (plain, tag) = sealed.split_at_mut(sealed.len() - 16);
        match self.open_plain(header, plain, tag) {
            Some((of, end)) => Opened::Record { size, of, end: HEADER + end },
            None => Opened::Damaged,
        }
    }

    /// A whole record in three parts: header, content, trailer, as `seal_apart` has them. Its type and where it ends;
    /// `None`: damaged.
    pub fn open_apart(&mut self, header: &[u8], content: &mut [u8], trailer: &[u8]) -> Option<(u8, usize)> {
        let size = content.len().checked_sub(1)?;
        if Keys::measure(header) != Some(size + OVERHEAD) {
            return None;
        }
        let behind = core::mem::replace(&mut content[size], trailer[0]);
        let opened = self.open_plain(header, content, &trailer[1..]);
        content[size] = behind;
        opened
    }

    /// `plain` is the content, its type, and what pads it. The type, and where the content ends.
    fn open_plain(&mut self, header: &[u8], plain: &mut [u8], tag: &[u8]) -> Option<(u8, usize)> {
        let tag = Tag::try_from(tag).ok()?;
        let nonce = self.nonce()?;
        let plain = self.key.open_in_place_separate_tag(nonce, Aad::from(header), tag, plain, 0..);
        let plain = plain.ok()?;
        // Zeros pad it, and the last byte that is none is the content's type.
        let end = plain.iter().rposition(|&byte| byte != 0)?;
        (end <= CONTENT_MAX).then_some((plain[end], end))
    }
}
