account_policies.did text NOT NULL COLLATE C
account_policies.collections text
account_policies.create_only text
account_policies.max_records bigint
account_policies.max_blob_bytes bigint
account_policies.writes_per_hour bigint
account_policies.writes_per_day bigint
account_policies.changed_at text NOT NULL COLLATE C
accounts.did text NOT NULL COLLATE C
accounts.handle text COLLATE C
accounts.identity text NOT NULL
accounts.email text COLLATE C
accounts.email_confirmed text
accounts.password text
accounts.password_set_at text
accounts.created_at text NOT NULL COLLATE C
accounts.changed_at text NOT NULL COLLATE C
accounts.deactivated_at text
accounts.delete_after text COLLATE C
accounts.suspended_at text
accounts.takendown_at text
accounts.takedown_ref text
accounts.deleted_at text
accounts.expires_at text COLLATE C
accounts.disabled_at text COLLATE C
accounts.held bigint NOT NULL DEFAULT 0
accounts.invites_disabled_at text COLLATE C
accounts.invite_note text COLLATE C
agents.did text NOT NULL COLLATE C
agents.display_name text NOT NULL COLLATE C
agents.owner text NOT NULL COLLATE C
agents.class_uri text COLLATE C
agents.class_cid text COLLATE C
agents.created_at text NOT NULL COLLATE C
agents.changed_at text NOT NULL COLLATE C
app_passwords.did text NOT NULL COLLATE C
app_passwords.name text NOT NULL COLLATE C
app_passwords.hash bytea NOT NULL
app_passwords.created_at text NOT NULL COLLATE C
app_passwords.scope text NOT NULL DEFAULT 'com.atproto.appPass'::text
app_passwords.expires_at text
app_passwords.last_used_at text
audit_log.id bigint NOT NULL IDENTITY ALWAYS
audit_log.at text NOT NULL COLLATE C
audit_log.actor text NOT NULL
audit_log.method text NOT NULL COLLATE C
audit_log.did text COLLATE C
audit_log.subject text
audit_log.input text NOT NULL
audit_log.client text NOT NULL
audit_log.request_id text NOT NULL
audit_outcomes.id bigint NOT NULL
audit_outcomes.at text NOT NULL COLLATE C
audit_outcomes.outcome text NOT NULL
audit_outcomes.error text
audit_outcomes.did text COLLATE C
awaited_blobs.repo_id bigint NOT NULL
awaited_blobs.cid bytea NOT NULL
awaited_blobs.path text NOT NULL COLLATE C
awaited_blobs.rev text NOT NULL COLLATE C
blob_objects.cid bytea NOT NULL
blob_objects.size bigint NOT NULL
blob_objects.state text NOT NULL COLLATE C
blob_objects.touched_at text NOT NULL COLLATE C
blob_objects.changed_at text NOT NULL COLLATE C
blob_objects.checked_at text NOT NULL COLLATE C DEFAULT ''::text
blob_objects.missing_at text COLLATE C
blob_objects.secrets_edition bigint NOT NULL DEFAULT 0
blob_refs.repo_id bigint NOT NULL
blob_refs.cid bytea NOT NULL
blob_refs.path text NOT NULL COLLATE C
blob_refs.rev text NOT NULL COLLATE C
blob_secrets.cid bytea NOT NULL
blob_secrets.rule text NOT NULL COLLATE C
blob_secrets.sure bigint NOT NULL
blob_secrets.position bigint NOT NULL
blob_secrets.found_at text NOT NULL COLLATE C
blobs.repo_id bigint NOT NULL
blobs.cid bytea NOT NULL
blobs.mime_type text NOT NULL COLLATE C
blobs.size bigint NOT NULL
blobs.uploaded_at text NOT NULL COLLATE C
event_sequence.id integer NOT NULL
event_sequence.last_seq bigint NOT NULL
event_sequence.pruned_seq bigint NOT NULL
event_sequence.erasures bigint NOT NULL
events.seq bigint NOT NULL
events.did text NOT NULL COLLATE C
events.kind text NOT NULL COLLATE C
events.frame bytea NOT NULL
events.created_at text NOT NULL COLLATE C
invite_uses.code text NOT NULL COLLATE C
invite_uses.did text NOT NULL COLLATE C
invite_uses.used_at text NOT NULL
invites.code text NOT NULL COLLATE C
invites.for_account text NOT NULL COLLATE C
invites.created_by text NOT NULL
invites.created_at text NOT NULL COLLATE C
invites.uses bigint NOT NULL
invites.uses_left bigint NOT NULL
invites.disabled_at text
issued_labels.label text NOT NULL COLLATE C
issued_labels.did text NOT NULL COLLATE C
issued_labels.issued_at text NOT NULL
issued_labels.pds_endpoint text
issued_labels.public_key text
issued_labels.handle text
keys.subject text NOT NULL COLLATE C
keys.purpose text NOT NULL COLLATE C
keys.public_key text NOT NULL
keys.wrapped bytea
keys.created_at text NOT NULL COLLATE C
leases.name text NOT NULL COLLATE C
leases.holder text NOT NULL
leases.until text NOT NULL COLLATE C
lexicon_state.id integer NOT NULL
lexicon_state.generation bigint NOT NULL
lexicons.nsid text NOT NULL COLLATE C
lexicons.source text NOT NULL
lexicons.added_at text NOT NULL COLLATE C
login_keys.did text NOT NULL COLLATE C
login_keys.public_key text NOT NULL COLLATE C
login_keys.name text NOT NULL COLLATE C
login_keys.scope text NOT NULL
login_keys.created_at text NOT NULL COLLATE C
login_keys.last_used_at text
login_keys.revoked_at text
login_keys.expires_at text
nodes.repo_id bigint NOT NULL
nodes.lower_key text NOT NULL COLLATE C
nodes.height bigint NOT NULL
nodes.cid bytea NOT NULL
nodes.rev text NOT NULL COLLATE C
nodes.block bytea NOT NULL
one_time_tokens.did text NOT NULL COLLATE C
one_time_tokens.purpose text NOT NULL COLLATE C
one_time_tokens.hash bytea NOT NULL
one_time_tokens.wrapped bytea NOT NULL
one_time_tokens.created_at text NOT NULL COLLATE C
one_time_tokens.expires_at text NOT NULL COLLATE C
preferences.did text NOT NULL COLLATE C
preferences.position bigint NOT NULL
preferences.type text NOT NULL COLLATE C
preferences.value bytea NOT NULL
purge_receipts.purge_id text NOT NULL COLLATE C
purge_receipts.at text NOT NULL COLLATE C
purge_receipts.receipt text NOT NULL COLLATE C
purge_steps.purge_id text NOT NULL COLLATE C
purge_steps.step text NOT NULL COLLATE C
purge_steps.at text NOT NULL COLLATE C
purge_steps.removed text NOT NULL COLLATE C
purged.cid bytea NOT NULL
purged.purge_id text NOT NULL COLLATE C
purged.kind text NOT NULL COLLATE C
purged.uri text NOT NULL COLLATE C
purged.size bigint NOT NULL
purges.id text NOT NULL COLLATE C
purges.at text NOT NULL COLLATE C
purges.actor text NOT NULL COLLATE C
purges.reason text NOT NULL COLLATE C
records.repo_id bigint NOT NULL
records.path text NOT NULL COLLATE C
records.cid bytea NOT NULL
records.rev text NOT NULL COLLATE C
records.block bytea NOT NULL
refresh_tokens.jti text NOT NULL COLLATE C
refresh_tokens.sid text NOT NULL COLLATE C
refresh_tokens.created_at text NOT NULL COLLATE C
refresh_tokens.expires_at text NOT NULL COLLATE C
refresh_tokens.next_jti text
refresh_tokens.grace_until text COLLATE C
repos.id bigint NOT NULL IDENTITY BY DEFAULT
repos.did text NOT NULL COLLATE C
repos.head bytea NOT NULL
repos.rev text NOT NULL COLLATE C
repos.data bytea NOT NULL
repos.commit_block bytea NOT NULL
repos.record_count bigint NOT NULL DEFAULT 0
repos.blob_count bigint NOT NULL DEFAULT 0
repos.blob_bytes bigint NOT NULL DEFAULT 0
sessions.sid text NOT NULL COLLATE C
sessions.did text NOT NULL COLLATE C
sessions.scope text NOT NULL
sessions.app_password text
sessions.created_at text NOT NULL COLLATE C
sessions.expires_at text NOT NULL COLLATE C
sessions.ended_at text COLLATE C
sessions.login_key text
sessions.not_after text
settings.name text NOT NULL COLLATE C
settings.value bytea NOT NULL
supersedes.did text NOT NULL COLLATE C
supersedes.successor text NOT NULL COLLATE C
supersedes.target text NOT NULL COLLATE C
supersedes.target_cid bytea NOT NULL
supersedes.rev text NOT NULL DEFAULT ''::text
takedowns.did text NOT NULL COLLATE C
takedowns.subject text NOT NULL COLLATE C
takedowns.cid text NOT NULL COLLATE C
takedowns.ref text NOT NULL COLLATE C
takedowns.taken_at text NOT NULL COLLATE C
tombstones.did text NOT NULL COLLATE C
tombstones.path text NOT NULL COLLATE C
tombstones.cid bytea NOT NULL
tombstones.deleted_at text NOT NULL COLLATE C
used_assertions.id text NOT NULL COLLATE C
used_assertions.expires_at text NOT NULL COLLATE C

account_policies account_policies_pkey PRIMARY KEY (did)
accounts accounts_email_key UNIQUE (email)
accounts accounts_handle_key UNIQUE (handle)
accounts accounts_pkey PRIMARY KEY (did)
agents agents_pkey PRIMARY KEY (did)
app_passwords app_passwords_pkey PRIMARY KEY (did, name)
audit_log audit_log_pkey PRIMARY KEY (id)
audit_outcomes audit_outcomes_pkey PRIMARY KEY (id)
awaited_blobs awaited_blobs_pkey PRIMARY KEY (repo_id, cid, path)
blob_objects blob_objects_pkey PRIMARY KEY (cid)
blob_refs blob_refs_pkey PRIMARY KEY (repo_id, cid, path)
blob_refs blob_refs_repo_id_cid_fkey FOREIGN KEY (repo_id, cid) REFERENCES blobs(repo_id, cid)
blob_secrets blob_secrets_cid_fkey FOREIGN KEY (cid) REFERENCES blob_objects(cid) ON DELETE CASCADE
blob_secrets blob_secrets_pkey PRIMARY KEY (cid, rule)
blobs blobs_pkey PRIMARY KEY (repo_id, cid)
event_sequence event_sequence_id_check CHECK ((id = 1))
event_sequence event_sequence_pkey PRIMARY KEY (id)
events events_pkey PRIMARY KEY (seq)
invite_uses invite_uses_pkey PRIMARY KEY (code, did)
invites invites_pkey PRIMARY KEY (code)
invites invites_uses_left_check CHECK ((uses_left >= 0))
issued_labels issued_labels_did_key UNIQUE (did)
issued_labels issued_labels_pkey PRIMARY KEY (label)
keys keys_pkey PRIMARY KEY (subject, purpose)
leases leases_pkey PRIMARY KEY (name)
lexicon_state lexicon_state_id_check CHECK ((id = 1))
lexicon_state lexicon_state_pkey PRIMARY KEY (id)
lexicons lexicons_pkey PRIMARY KEY (nsid)
login_keys login_keys_pkey PRIMARY KEY (did, public_key)
nodes nodes_pkey PRIMARY KEY (repo_id, lower_key, height)
one_time_tokens one_time_tokens_hash_key UNIQUE (hash)
one_time_tokens one_time_tokens_pkey PRIMARY KEY (did, purpose)
preferences preferences_pkey PRIMARY KEY (did, "position")
purge_receipts purge_receipts_pkey PRIMARY KEY (purge_id)
purge_steps purge_steps_pkey PRIMARY KEY (purge_id, step)
purged purged_pkey PRIMARY KEY (cid, purge_id, uri)
purges purges_pkey PRIMARY KEY (id)
records records_pkey PRIMARY KEY (repo_id, path)
refresh_tokens refresh_tokens_pkey PRIMARY KEY (jti)
repos repos_did_key UNIQUE (did)
repos repos_pkey PRIMARY KEY (id)
sessions sessions_pkey PRIMARY KEY (sid)
settings settings_pkey PRIMARY KEY (name)
supersedes supersedes_pkey PRIMARY KEY (did, successor)
takedowns takedowns_pkey PRIMARY KEY (did, subject)
tombstones tombstones_pkey PRIMARY KEY (did, path)
used_assertions used_assertions_pkey PRIMARY KEY (id)

CREATE UNIQUE INDEX account_policies_pkey ON public.account_policies USING btree (did);
CREATE INDEX accounts_changed ON public.accounts USING btree (changed_at);
CREATE INDEX accounts_created ON public.accounts USING btree (created_at, did);
CREATE INDEX accounts_delete_after ON public.accounts USING btree (delete_after) WHERE (delete_after IS NOT NULL);
CREATE INDEX accounts_due ON public.accounts USING btree (expires_at) WHERE ((expires_at IS NOT NULL) AND (deactivated_at IS NULL) AND (deleted_at IS NULL));
CREATE UNIQUE INDEX accounts_email_key ON public.accounts USING btree (email);
CREATE UNIQUE INDEX accounts_handle_key ON public.accounts USING btree (handle);
CREATE UNIQUE INDEX accounts_pkey ON public.accounts USING btree (did);
CREATE INDEX agents_created ON public.agents USING btree (created_at, did);
CREATE INDEX agents_owner ON public.agents USING btree (owner, created_at, did);
CREATE UNIQUE INDEX agents_pkey ON public.agents USING btree (did);
CREATE UNIQUE INDEX app_passwords_pkey ON public.app_passwords USING btree (did, name);
CREATE INDEX audit_log_at ON public.audit_log USING btree (at);
CREATE INDEX audit_log_did ON public.audit_log USING btree (did, id) WHERE (did IS NOT NULL);
CREATE INDEX audit_log_method ON public.audit_log USING btree (method, id);
CREATE UNIQUE INDEX audit_log_pkey ON public.audit_log USING btree (id);
CREATE INDEX audit_outcomes_did ON public.audit_outcomes USING btree (did, id) WHERE (did IS NOT NULL);
CREATE UNIQUE INDEX audit_outcomes_pkey ON public.audit_outcomes USING btree (id);
CREATE INDEX awaited_blobs_by_path ON public.awaited_blobs USING btree (repo_id, path);
CREATE UNIQUE INDEX awaited_blobs_pkey ON public.awaited_blobs USING btree (repo_id, cid, path);
CREATE INDEX blob_objects_checked ON public.blob_objects USING btree (state, checked_at, cid);
CREATE INDEX blob_objects_missing ON public.blob_objects USING btree (cid) WHERE (missing_at IS NOT NULL);
CREATE UNIQUE INDEX blob_objects_pkey ON public.blob_objects USING btree (cid);
CREATE INDEX blob_objects_touched ON public.blob_objects USING btree (state, touched_at, cid);
CREATE INDEX blob_objects_unsearched ON public.blob_objects USING btree (state, secrets_edition, cid);
CREATE INDEX blob_refs_by_path ON public.blob_refs USING btree (repo_id, path);
CREATE UNIQUE INDEX blob_refs_pkey ON public.blob_refs USING btree (repo_id, cid, path);
CREATE INDEX blob_secrets_found ON public.blob_secrets USING btree (found_at, cid, rule);
CREATE UNIQUE INDEX blob_secrets_pkey ON public.blob_secrets USING btree (cid, rule);
CREATE INDEX blobs_by_cid ON public.blobs USING btree (cid);
CREATE INDEX blobs_by_upload ON public.blobs USING btree (uploaded_at);
CREATE UNIQUE INDEX blobs_pkey ON public.blobs USING btree (repo_id, cid);
CREATE UNIQUE INDEX event_sequence_pkey ON public.event_sequence USING btree (id);
CREATE INDEX events_by_did ON public.events USING btree (did);
CREATE UNIQUE INDEX events_pkey ON public.events USING btree (seq);
CREATE INDEX invite_uses_did ON public.invite_uses USING btree (did);
CREATE UNIQUE INDEX invite_uses_pkey ON public.invite_uses USING btree (code, did);
CREATE INDEX invites_account ON public.invites USING btree (for_account, created_at, code);
CREATE INDEX invites_created ON public.invites USING btree (created_at, code);
CREATE UNIQUE INDEX invites_pkey ON public.invites USING btree (code);
CREATE INDEX invites_used ON public.invites USING btree (((uses - uses_left)), code);
CREATE UNIQUE INDEX issued_labels_did_key ON public.issued_labels USING btree (did);
CREATE UNIQUE INDEX issued_labels_pkey ON public.issued_labels USING btree (label);
CREATE UNIQUE INDEX keys_pkey ON public.keys USING btree (subject, purpose);
CREATE UNIQUE INDEX leases_pkey ON public.leases USING btree (name);
CREATE UNIQUE INDEX lexicon_state_pkey ON public.lexicon_state USING btree (id);
CREATE UNIQUE INDEX lexicons_pkey ON public.lexicons USING btree (nsid);
CREATE UNIQUE INDEX login_keys_name ON public.login_keys USING btree (did, name) WHERE (revoked_at IS NULL);
CREATE UNIQUE INDEX login_keys_pkey ON public.login_keys USING btree (did, public_key);
CREATE UNIQUE INDEX nodes_pkey ON public.nodes USING btree (repo_id, lower_key, height);
CREATE INDEX one_time_tokens_created ON public.one_time_tokens USING btree (created_at, did, purpose);
CREATE INDEX one_time_tokens_expires ON public.one_time_tokens USING btree (expires_at);
CREATE UNIQUE INDEX one_time_tokens_hash_key ON public.one_time_tokens USING btree (hash);
CREATE UNIQUE INDEX one_time_tokens_pkey ON public.one_time_tokens USING btree (did, purpose);
CREATE UNIQUE INDEX preferences_pkey ON public.preferences USING btree (did, "position");
CREATE UNIQUE INDEX purge_receipts_pkey ON public.purge_receipts USING btree (purge_id);
CREATE UNIQUE INDEX purge_steps_pkey ON public.purge_steps USING btree (purge_id, step);
CREATE INDEX purged_by_purge ON public.purged USING btree (purge_id);
CREATE UNIQUE INDEX purged_pkey ON public.purged USING btree (cid, purge_id, uri);
CREATE UNIQUE INDEX purges_pkey ON public.purges USING btree (id);
CREATE UNIQUE INDEX records_pkey ON public.records USING btree (repo_id, path);
CREATE INDEX refresh_tokens_expires ON public.refresh_tokens USING btree (expires_at);
CREATE INDEX refresh_tokens_grace ON public.refresh_tokens USING btree (grace_until) WHERE (grace_until IS NOT NULL);
CREATE UNIQUE INDEX refresh_tokens_pkey ON public.refresh_tokens USING btree (jti);
CREATE INDEX refresh_tokens_sid ON public.refresh_tokens USING btree (sid);
CREATE INDEX repos_by_blob_bytes ON public.repos USING btree (blob_bytes, id);
CREATE INDEX repos_by_records ON public.repos USING btree (record_count, id);
CREATE UNIQUE INDEX repos_did_key ON public.repos USING btree (did);
CREATE UNIQUE INDEX repos_pkey ON public.repos USING btree (id);
CREATE INDEX sessions_did ON public.sessions USING btree (did, created_at, sid);
CREATE INDEX sessions_ended ON public.sessions USING btree (ended_at) WHERE (ended_at IS NOT NULL);
CREATE INDEX sessions_expires ON public.sessions USING btree (expires_at);
CREATE UNIQUE INDEX sessions_pkey ON public.sessions USING btree (sid);
CREATE UNIQUE INDEX settings_pkey ON public.settings USING btree (name);
CREATE INDEX supersedes_by_target ON public.supersedes USING btree (did, target, rev);
CREATE UNIQUE INDEX supersedes_pkey ON public.supersedes USING btree (did, successor);
CREATE UNIQUE INDEX takedowns_pkey ON public.takedowns USING btree (did, subject);
CREATE UNIQUE INDEX tombstones_pkey ON public.tombstones USING btree (did, path);
CREATE INDEX used_assertions_expires ON public.used_assertions USING btree (expires_at);
CREATE UNIQUE INDEX used_assertions_pkey ON public.used_assertions USING btree (id);
