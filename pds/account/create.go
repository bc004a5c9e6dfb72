package account

import (
	"context"
	"errors"
	"fmt"

	"github.com/bluesky-social/indigo/atproto/atcrypto"
	"github.com/bluesky-social/indigo/atproto/syntax"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// Params asks for a new account.
type Params struct {
	Handle   syntax.Handle
	Email    string // optional
	Password string // optional: without one only a key signs in
	Invite   string
	// ByAdmin needs no invite and may take a reserved name.
	ByAdmin bool
	// DID is set when the account brings its identity along. The caller has
	// proven it (service JWT by its key), and the handle if that is not under a
	// domain of this host. The account starts deactivated.
	DID syntax.DID
	// RecoveryKey (did:key) goes in front of the host's rotation key in a
	// did:plc genesis operation: its owner can take the identity elsewhere.
	RecoveryKey string
}

// Prepared is an account that could be created: everything slow is done, and
// nothing is written.
type Prepared struct {
	row     accountRow
	key     keyRow
	private atcrypto.PrivateKey
	invite  string        // "" when none is used up
	genesis *PLCOperation // did:plc only
}

// DID of the account to be.
func (p *Prepared) DID() syntax.DID { return syntax.DID(p.row.DID) }

// Handle of the account to be.
func (p *Prepared) Handle() syntax.Handle { return syntax.Handle(value(p.row.Handle)) }

// SigningKey signs the first commit, before the key is in the database.
func (p *Prepared) SigningKey() atcrypto.PrivateKey { return p.private }

// Active is false for an account that brought its DID along.
func (p *Prepared) Active() bool { return p.row.DeactivatedAt == nil }

// Prepare validates, hashes the password, makes the key and, for a did:plc
// account, signs its genesis operation. It answers ErrHandle…, ErrEmail…,
// ErrPasswordUnfit, ErrInvite or ErrDIDTaken early; what races is decided by
// Insert.
func (s *Store) Prepare(ctx context.Context, params Params) (*Prepared, error) {
	p := &Prepared{}
	handle, err := s.admissibleHandle(params)
	if err != nil {
		return nil, err
	}
	email := ""
	if params.Email != "" {
		if email, err = normalizeEmail(params.Email); err != nil {
			return nil, err
		}
	}
	if s.cfg.InviteRequired && !params.ByAdmin {
		p.invite = params.Invite
		if err := s.inviteUsable(ctx, p.invite); err != nil {
			return nil, err
		}
	}
	now := s.nowText()
	text := handle.String()
	p.row = accountRow{Handle: &text, Email: optional(email), CreatedAt: now, ChangedAt: now}
	if err := s.prepareIdentity(ctx, p, handle, params); err != nil {
		return nil, err
	}
	if err := taken(ctx, s.cfg.DB.Read, p.row); err != nil {
		return nil, err
	}
	// Last, because it is what costs.
	if params.Password != "" {
		phc, err := s.hasher.hash(ctx, params.Password)
		if err != nil {
			return nil, err
		}
		p.row.Password, p.row.PasswordSetAt = &phc, &p.row.CreatedAt
	}
	return p, nil
}

func (s *Store) admissibleHandle(params Params) (syntax.Handle, error) {
	if params.DID == "" || s.OwnsDomain(params.Handle) {
		return s.checkHandle(params.Handle, params.ByAdmin)
	}
	return foreignHandle(params.Handle)
}

// foreignHandle reads a handle under a domain of others.
func foreignHandle(handle syntax.Handle) (syntax.Handle, error) {
	handle, err := ParseHandle(string(handle))
	if err == nil && (!handle.AllowedTLD() || handle.IsInvalidHandle()) {
		err = fmt.Errorf("%w: .%s is not for handles", ErrHandleInvalid, handle.TLD())
	}
	return handle, err
}

// prepareIdentity makes the signing key and the DID.
func (s *Store) prepareIdentity(ctx context.Context, p *Prepared, handle syntax.Handle, params Params) error {
	signing, err := s.newKey()
	if err != nil {
		return fmt.Errorf("make signing key: %w", err)
	}
	p.private = signing
	var did syntax.DID
	switch {
	case params.DID != "":
		// What lies under our domains is issued here or by nobody.
		if params.DID.Method() == "web" && s.OwnsDomain(syntax.Handle(params.DID.Identifier())) {
			return fmt.Errorf("%w: a did:web under a domain of this host is issued by it", ErrDIDTaken)
		}
		did, p.row.Identity, p.row.DeactivatedAt = params.DID, string(Own), &p.row.CreatedAt
	case s.cfg.Identity == PLC:
		p.row.Identity = string(PLC)
		if p.genesis, err = s.genesis(ctx, handle, signing, params.RecoveryKey); err != nil {
			return err
		}
		if did, err = p.genesis.DID(); err != nil {
			return err
		}
	default:
		did, p.row.Identity = WebDID(handle), string(Web)
	}
	p.row.DID = string(did)
	p.key, err = s.seal(string(did), purposeSigning, signing)
	return err
}

// WebDID is the did:web of a handle.
func WebDID(handle syntax.Handle) syntax.DID {
	return syntax.DID("did:web:" + handle.Normalize().String())
}

// taken says which of the things that only one account can have is not free.
func taken(ctx context.Context, db *gorm.DB, row accountRow) error {
	if err := labelTaken(ctx, db, value(row.Handle), ""); err != nil {
		return err
	}
	for _, unique := range []struct {
		column, value string
		err           error
	}{
		{"handle", value(row.Handle), ErrHandleTaken}, {"did", row.DID, ErrDIDTaken}, {"email", value(row.Email), ErrEmailTaken},
	} {
		if unique.value == "" {
			continue
		}
		used, err := exists(ctx, db, "accounts", unique.column+" = ?", unique.value)
		if err != nil {
			return err
		}
		if used {
			return unique.err
		}
	}
	return nil
}

// labelTaken: a handle that a did:web was ever issued for is that DID's, even
// when its account is renamed or deleted: nobody else may speak in its name.
// did is the one that may have it again, "" for a new account.
func labelTaken(ctx context.Context, db *gorm.DB, handle, did string) error {
	issued, err := exists(ctx, db, "issued_labels", "label = ? AND did <> ?", handle, did)
	if err != nil {
		return err
	}
	if issued {
		return fmt.Errorf("%w: its did:web was issued before, and is issued once", ErrHandleTaken)
	}
	return nil
}

// Submit sends the genesis operation of a did:plc account to the PLC
// directory; for other accounts it does nothing. It belongs between Prepare
// and the transaction of Insert: a DID that nobody uses then is harmless, an
// account whose DID does not exist is not. ErrPLCRefused, ErrPLCUnavailable.
func (s *Store) Submit(ctx context.Context, p *Prepared) error {
	if p.genesis == nil {
		return nil
	}
	if err := s.plc.submit(ctx, p.DID(), p.genesis); err != nil {
		return fmt.Errorf("create %s: %w", p.DID(), err)
	}
	return nil
}

// Insert writes the account, its label, its key and the use of the invite,
// inside the caller's transaction (tx), which the caller rolls back on any
// error. Of accounts that race for one handle, DID, e-mail or last use of an
// invite, one is inserted.
func (s *Store) Insert(ctx context.Context, tx *gorm.DB, p *Prepared) (Account, error) {
	tx = tx.WithContext(ctx)
	fail := func(err error) (Account, error) {
		return Account{}, fmt.Errorf("insert account %s: %w", p.row.DID, err)
	}
	// On Postgres this waits for a transaction that is inserting the same.
	created := tx.Clauses(clause.OnConflict{DoNothing: true}).Create(&p.row)
	if created.Error != nil {
		return fail(created.Error)
	}
	if created.RowsAffected == 0 {
		if err := taken(ctx, tx, p.row); err != nil {
			return fail(err)
		}
		return fail(errors.New("a conflicting account came and went"))
	}
	if err := labelTaken(ctx, tx, value(p.row.Handle), ""); err != nil {
		return fail(err)
	}
	if p.row.Identity == string(Web) {
		if err := s.issueLabel(tx, p.row); err != nil {
			return fail(err)
		}
	}
	if err := tx.Create(&p.key).Error; err != nil {
		return fail(err)
	}
	if p.invite != "" {
		if err := s.useInvite(tx, p.invite, p.DID()); err != nil {
			return fail(err)
		}
	}
	return p.row.account()
}

func (s *Store) issueLabel(tx *gorm.DB, row accountRow) error {
	issued := tx.Exec("INSERT INTO issued_labels (label, did, issued_at) VALUES (?, ?, ?) ON CONFLICT DO NOTHING", value(row.Handle), row.DID, row.CreatedAt)
	if issued.Error == nil && issued.RowsAffected == 0 {
		return ErrHandleTaken
	}
	return issued.Error
}
