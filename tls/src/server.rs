//! The server's side of a handshake. A client's certificate is judged and the judgement kept, instead of breaking off:
//! who is refused is told why, inside of TLS, by those who know what it wanted.
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::UnsafeCell;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{verify_tls13_signature, verify_tls13_signature_with_raw_key, CryptoProvider};
use rustls::pki_types::{CertificateDer, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{NoClientAuth, NoServerSessionStorage, UnbufferedServerConnection};
use rustls::sign::SingleCertAndKey;
use rustls::version::TLS13;
use rustls::{DigitallySignedStruct, DistinguishedName, Error, ServerConfig, SignatureScheme};
use webpki::{anchor_from_trusted_cert, EndEntityCert};

use crate::identity::Identity;
use crate::shake::{failure_of, provider, Connection, Handshake, Heard, Now};
use crate::trust::Clients;
use crate::Failure;

/// What its connections have in common.
pub struct Server {
    provider: Arc<CryptoProvider>,
    identity: Arc<SingleCertAndKey>,
    /// Whom it believes, where it asks.
    clients: Option<Arc<Clients>>,
}

/// What a client has shown, and what there is to say against that.
pub struct Shown {
    pub certificate: Vec<u8>,
    pub judgement: Option<Failure>,
}

/// Of one connection, which is one thread's while hands are shaken.
pub struct Peer {
    clients: Arc<Clients>,
    provider: Arc<CryptoProvider>,
    shown: UnsafeCell<Option<Shown>>,
}
unsafe impl Send for Peer {}
unsafe impl Sync for Peer {}
impl core::fmt::Debug for Peer {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("peer")
    }
}

impl Peer {
    pub fn shown(&self) -> Option<&Shown> {
        unsafe { (*self.shown.get()).as_ref() }
    }
}

impl Server {
    /// All in PEM. Without authorities nobody is asked for a certificate.
    pub fn new(identity: &Identity<'_>, authorities: Option<&[u8]>) -> Result<Server, Failure> {
        let provider = provider();
        let own = identity.read(&provider)?;
        let clients = match authorities {
            None => None,
            Some(pem) => Some(Clients::new(pem, &provider).ok_or(Failure::BadAuthorities)?),
        };
        Ok(Server { provider, identity: Arc::new(SingleCertAndKey::from(own)), clients })
    }

    pub fn accept(&self, now: u64) -> Result<(Handshake, Option<Arc<Peer>>), Failure> {
        let builder = ServerConfig::builder_with_details(self.provider.clone(), Now::new(now))
            .with_protocol_versions(&[&TLS13])
            .map_err(|_| Failure::Other)?;
        let peer = self.clients.as_ref().map(|clients| {
            let (clients, provider) = (clients.clone(), self.provider.clone());
            Arc::new(Peer { clients, provider, shown: UnsafeCell::new(None) })
        });
        let verifier: Arc<dyn ClientCertVerifier> = match &peer {
            Some(peer) => peer.clone(),
            None => Arc::new(NoClientAuth),
        };
        let builder = builder.with_client_cert_verifier(verifier);
        let mut config = builder.with_cert_resolver(self.identity.clone());
        let heard = Heard::new();
        config.key_log = heard.clone();
        config.enable_secret_extraction = true;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        // Each certificate is judged by the authorities of today; and keys begin with record 0.
        config.send_tls13_tickets = 0;
        match UnbufferedServerConnection::new(Arc::new(config)) {
            Ok(connection) => {
                let connection = Connection::Server(Box::new(connection));
                Ok((Handshake::new(connection, heard), peer))
            }
            Err(error) => Err(failure_of(&error)),
        }
    }
}

impl ClientCertVerifier for Peer {
    fn offer_client_auth(&self) -> bool {
        true
    }
    fn client_auth_mandatory(&self) -> bool {
        false
    }
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.clients.names()
    }
    fn verify_client_cert(
        &self,
        client: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let judgement = self.clients.judge(client, others, now).err();
        let certificate = client.as_ref().to_vec();
        unsafe { *self.shown.get() = Some(Shown { certificate, judgement }) };
        Ok(ClientCertVerified::assertion())
    }
    // TLS 1.2 is not compiled in, so this is never asked for.
    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::HandshakeNotComplete)
    }
    /// That the client has the key is never left open, whatever is said of its certificate.
    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        let old = EndEntityCert::try_from(certificate).err() == Some(webpki::Error::UnsupportedCertVersion);
        if !old {
            return verify_tls13_signature(message, certificate, signed, algorithms);
        }
        // Of version 1: the key in it is read as authorities' are, of which there are such ones.
        let Ok(anchor) = anchor_from_trusted_cert(certificate) else {
            return Err(Error::InvalidCertificate(rustls::CertificateError::BadEncoding));
        };
        let key = in_sequence(anchor.subject_public_key_info.as_ref());
        let key = SubjectPublicKeyInfoDer::from(key);
        verify_tls13_signature_with_raw_key(message, &key, signed, algorithms)
    }
    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// DER of a sequence with this in it.
fn in_sequence(content: &[u8]) -> Vec<u8> {
    let size = content.len();
    let mut der = Vec::with_capacity(size + 4);
    der.push(0x30);
    match size {
        0..=0x7f => der.push(size as u8),
        0x80..=0xff => der.extend([0x81, size as u8]),
        _ => der.extend([0x82, (size >> 8) as u8, size as u8]),
    }
    der.extend(content);
    der
}
