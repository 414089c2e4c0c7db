//! Whom a client believes, and whom a server.
use alloc::sync::Arc;
use alloc::vec::Vec;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::WebPkiServerVerifier;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::WebPkiClientVerifier;
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore, SignatureScheme,
};
use webpki::{EndEntityCert, KeyUsage};

use crate::shake::failure_of;
use crate::Failure;

/// Certificates in PEM, of which those that cannot be read are left out: systems have some.
fn read(authorities: &[u8]) -> (Vec<CertificateDer<'static>>, Arc<RootCertStore>) {
    let named: Vec<_> = CertificateDer::pem_slice_iter(authorities).flatten().collect();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(named.iter().cloned());
    (named, Arc::new(roots))
}

/// What is wrong with a certificate where there are no authorities at all. Its time, and what it may be used for, is
/// looked at first.
fn wrong_by_itself(
    certificate: &CertificateDer<'_>,
    now: UnixTime,
    usage: KeyUsage,
    provider: &CryptoProvider,
) -> Option<webpki::Error> {
    let algorithms = provider.signature_verification_algorithms.all;
    EndEntityCert::try_from(certificate)
        .and_then(|it| it.verify_for_usage(algorithms, &[], &[], now, usage, None, None).map(|_| ()))
        .err()
}

/// The usual check of chain, time and name, and beside it: a server's certificate that is itself among the authorities
/// is believed as it is, whoever has signed it. `openssl req -x509` makes such ones, which say that they are an
/// authority's and would be refused as a server's.
#[derive(Debug)]
pub struct Trust {
    usual: Arc<WebPkiServerVerifier>,
    named: Vec<CertificateDer<'static>>,
    provider: Arc<CryptoProvider>,
}

/// `None` where no certificate can be read.
pub fn trust(authorities: &[u8], provider: &Arc<CryptoProvider>) -> Option<Arc<Trust>> {
    let (named, roots) = read(authorities);
    let usual = WebPkiServerVerifier::builder_with_provider(roots, provider.clone());
    let usual = usual.build().ok()?;
    Some(Arc::new(Trust { usual, named, provider: provider.clone() }))
}

impl ServerCertVerifier for Trust {
    fn verify_server_cert(
        &self,
        server: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let usual = self.usual.verify_server_cert(server, others, name, ocsp, now);
        let may_be_named = matches!(
            usual,
            Err(Error::InvalidCertificate(CertificateError::Other(_) | CertificateError::UnknownIssuer))
        );
        if !may_be_named {
            return usual;
        }
        match wrong_by_itself(server, now, KeyUsage::server_auth(), &self.provider) {
            Some(webpki::Error::CaUsedAsEndEntity | webpki::Error::UnknownIssuer) => {}
            _ => return usual,
        }
        let wrong_by = |what| Err(Error::InvalidCertificate(what));
        if !self.named.iter().any(|named| named.as_ref() == server.as_ref()) {
            return wrong_by(CertificateError::UnknownIssuer);
        }
        let certificate = EndEntityCert::try_from(server);
        match certificate.and_then(|it| it.verify_is_valid_for_subject_name(name)) {
            Ok(()) => Ok(ServerCertVerified::assertion()),
            Err(_) => wrong_by(CertificateError::NotValidForName),
        }
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

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.usual.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.usual.supported_verify_schemes()
    }
}

/// What a server says of clients' certificates, as `Trust` of servers' but for the name: that is read by others.
pub struct Clients {
    usual: Arc<dyn ClientCertVerifier>,
    named: Vec<CertificateDer<'static>>,
    provider: Arc<CryptoProvider>,
}

impl Clients {
    /// `None` where no certificate can be read.
    pub fn new(authorities: &[u8], provider: &Arc<CryptoProvider>) -> Option<Arc<Clients>> {
        let (named, roots) = read(authorities);
        let usual = WebPkiClientVerifier::builder_with_provider(roots, provider.clone());
        let usual = usual.build().ok()?;
        Some(Arc::new(Clients { usual, named, provider: provider.clone() }))
    }

    pub fn usual(&self) -> &dyn ClientCertVerifier {
        &*self.usual
    }

    /// Of the authorities, which clients are told.
    pub fn names(&self) -> &[DistinguishedName] {
        self.usual.root_hint_subjects()
    }

    pub fn judge(
        &self,
        client: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), Failure> {
        let Err(wrong) = self.usual.verify_client_cert(client, others, now) else { return Ok(()) };
        if EndEntityCert::try_from(client).err() == Some(webpki::Error::UnsupportedCertVersion) {
            return Err(Failure::Version1);
        }
        let itself = wrong_by_itself(client, now, KeyUsage::client_auth(), &self.provider);
        if itself != Some(webpki::Error::CaUsedAsEndEntity) {
            return Err(failure_of(&wrong));
        }
        if !self.named.iter().any(|named| named.as_ref() == client.as_ref()) {
            return Err(Failure::UnknownIssuer);
        }
        Ok(())
    }
}
