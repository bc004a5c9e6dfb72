blob_refs.uri text NOT NULL COLLATE C
blob_refs.cid text NOT NULL COLLATE C
blob_refs.did text NOT NULL COLLATE C
blob_refs.mime text NOT NULL COLLATE C
blob_refs.size bigint NOT NULL
chain_branches.branch bigint NOT NULL
chain_branches.chain bigint NOT NULL
chain_branches.main boolean NOT NULL
chain_branches.head_uri text NOT NULL COLLATE C
chain_nodes.uri text NOT NULL COLLATE C
chain_nodes.did text NOT NULL COLLATE C
chain_nodes.rkey text NOT NULL COLLATE C
chain_nodes.cid text NOT NULL COLLATE C
chain_nodes.live boolean NOT NULL
chain_nodes.future boolean NOT NULL
chain_nodes.target_uri text NOT NULL COLLATE C
chain_nodes.target_cid text NOT NULL COLLATE C
chain_nodes.edge text NOT NULL COLLATE C
chain_nodes.chain bigint NOT NULL
chain_nodes.branch bigint NOT NULL
chain_nodes.position bigint NOT NULL
chain_nodes.forked boolean NOT NULL
chain_nodes.bereft boolean NOT NULL
chain_nodes.observed_at text NOT NULL COLLATE C
chain_nodes.indexed_at text NOT NULL COLLATE C
changes.seq bigint NOT NULL
changes.kind text NOT NULL COLLATE C
changes.uri text NOT NULL COLLATE C
changes.did text NOT NULL COLLATE C
changes.collection text NOT NULL COLLATE C
changes.cid text NOT NULL COLLATE C
changes.rev text NOT NULL COLLATE C
changes.detail text NOT NULL COLLATE C
changes.needs text NOT NULL COLLATE C
changes.hidden boolean NOT NULL
changes.at text NOT NULL COLLATE C
citation_queue.kind text NOT NULL COLLATE C
citation_queue.uri text NOT NULL COLLATE C
citation_queue.due_at text NOT NULL COLLATE C
citation_queue.tries bigint NOT NULL
citations.from_uri text NOT NULL COLLATE C
citations.path text NOT NULL COLLATE C
citations.from_did text NOT NULL COLLATE C
citations.relation text NOT NULL COLLATE C
citations.target_uri text NOT NULL COLLATE C
citations.target_cid text NOT NULL COLLATE C
citations.target_collection text NOT NULL COLLATE C
citations.verdict text NOT NULL COLLATE C
citations.reason text NOT NULL COLLATE C
citations.haystack text NOT NULL COLLATE C
citations.at_start bigint NOT NULL
citations.at_end bigint NOT NULL
citations.freshness text NOT NULL COLLATE C
citations.head_uri text NOT NULL COLLATE C
classes.uri text NOT NULL COLLATE C
classes.did text NOT NULL COLLATE C
classes.name text NOT NULL COLLATE C
classes.name_key text NOT NULL COLLATE C
classes.parent_uri text NOT NULL COLLATE C
classes.parent_cid text NOT NULL COLLATE C
classes.sort_at text NOT NULL COLLATE C
commit_marks.mark bigint NOT NULL
content_tests.did text NOT NULL COLLATE C
content_tests.cid text NOT NULL COLLATE C
content_tests.test text NOT NULL COLLATE C
content_tests.verdict text NOT NULL COLLATE C
content_tests.reason text NOT NULL COLLATE C
content_tests.at_start bigint NOT NULL
content_tests.at_end bigint NOT NULL
content_tests.selected text NOT NULL COLLATE C
conversations.uri text NOT NULL COLLATE C
conversations.did text NOT NULL COLLATE C
conversations.title text NOT NULL COLLATE C
conversations.description text NOT NULL COLLATE C
conversations.discussion text NOT NULL COLLATE C
conversations.created_at text NOT NULL COLLATE C
conversations.started_at text NOT NULL COLLATE C
conversations.turns bigint NOT NULL
conversations.visible_turns bigint NOT NULL
conversations.last_turn_at text NOT NULL COLLATE C
conversations.sort_at text NOT NULL COLLATE C
findings.uri text NOT NULL COLLATE C
findings.code text NOT NULL COLLATE C
findings.path text NOT NULL COLLATE C
findings.cid text NOT NULL COLLATE C
findings.did text NOT NULL COLLATE C
findings.collection text NOT NULL COLLATE C
findings.severity text NOT NULL COLLATE C
findings.message text NOT NULL COLLATE C
findings.repair text NOT NULL COLLATE C
findings.at text NOT NULL COLLATE C
index_state.id bigint NOT NULL
index_state.next_label bigint NOT NULL
index_state.applied bigint NOT NULL
index_state.edition text NOT NULL COLLATE C DEFAULT ''::text
index_state.mixed boolean NOT NULL DEFAULT false
index_state.change_seq bigint NOT NULL DEFAULT 0
index_state.changes_pruned bigint NOT NULL DEFAULT 0
journal.seq bigint NOT NULL IDENTITY ALWAYS
journal.source text NOT NULL COLLATE C
journal.did text NOT NULL COLLATE C
journal.rev text NOT NULL COLLATE C
journal.commit_cid text NOT NULL COLLATE C
journal.uri text NOT NULL COLLATE C
journal.collection text NOT NULL COLLATE C
journal.rkey text NOT NULL COLLATE C
journal.action text NOT NULL COLLATE C
journal.cid text NOT NULL COLLATE C
journal.prev text NOT NULL COLLATE C
journal.baseline boolean NOT NULL
journal.witnessed_at text NOT NULL COLLATE C
journal.facts text NOT NULL COLLATE C
journal.record bytea
lexicon_state.id integer NOT NULL
lexicon_state.generation bigint NOT NULL
lexicons.nsid text NOT NULL COLLATE C
lexicons.source text NOT NULL
lexicons.added_at text NOT NULL COLLATE C
messages.uri text NOT NULL COLLATE C
messages.did text NOT NULL COLLATE C
messages.session_uri text NOT NULL COLLATE C
messages.foreigner boolean NOT NULL
messages.role text NOT NULL COLLATE C
messages.model text NOT NULL COLLATE C
messages.withheld boolean NOT NULL
messages.worded boolean NOT NULL
messages.rewrites text NOT NULL COLLATE C
messages.sort_at text NOT NULL COLLATE C
observations.uri text NOT NULL COLLATE C
observations.did text NOT NULL COLLATE C
observations.source_kind text NOT NULL COLLATE C
observations.source_value text NOT NULL COLLATE C
observations.source_key text NOT NULL COLLATE C
observations.method text NOT NULL COLLATE C
observations.run text NOT NULL COLLATE C
observations.device text NOT NULL COLLATE C
observations.harness text NOT NULL COLLATE C
observations.model text NOT NULL COLLATE C
observations.observed_at text NOT NULL COLLATE C
observations.created_at text NOT NULL COLLATE C
observations.head boolean NOT NULL
observations.sort_at text NOT NULL COLLATE C
observations.text text NOT NULL COLLATE C
proofs.id bigint NOT NULL IDENTITY ALWAYS
proofs.did text NOT NULL COLLATE C
proofs.rev text NOT NULL COLLATE C
proofs.commit_cid text NOT NULL COLLATE C
proofs.blocks bytea NOT NULL
purged.cid text NOT NULL COLLATE C
purged.uri text NOT NULL COLLATE C
purged.purged_at text NOT NULL COLLATE C
records.uri text NOT NULL COLLATE C
records.did text NOT NULL COLLATE C
records.collection text NOT NULL COLLATE C
records.rkey text NOT NULL COLLATE C
records.cid text NOT NULL COLLATE C
records.repo_cid text NOT NULL COLLATE C
records.seq bigint NOT NULL
records.state text NOT NULL COLLATE C
records.violated boolean NOT NULL
records.baseline boolean NOT NULL
records.versions bigint NOT NULL
records.indexed_at text NOT NULL COLLATE C
records.updated_at text NOT NULL COLLATE C
records.deleted_at text NOT NULL COLLATE C
refs.from_uri text NOT NULL COLLATE C
refs.path text NOT NULL COLLATE C
refs.kind text NOT NULL COLLATE C
refs.from_did text NOT NULL COLLATE C
refs.target_uri text NOT NULL COLLATE C
refs.target_cid text NOT NULL COLLATE C
repos.did text NOT NULL COLLATE C
repos.handle text NOT NULL COLLATE C
repos.active boolean NOT NULL
repos.status text NOT NULL COLLATE C
repos.rev text NOT NULL COLLATE C
repos.commit_cid text NOT NULL COLLATE C
repos.data_cid text NOT NULL COLLATE C
repos.sync text NOT NULL COLLATE C
repos.sync_error text NOT NULL COLLATE C
repos.first_seen text NOT NULL COLLATE C
repos.updated_at text NOT NULL COLLATE C
repos.unreachable text NOT NULL COLLATE C DEFAULT ''::text
revalidations.collection text NOT NULL COLLATE C
revalidations.state text NOT NULL COLLATE C
revalidations.uri text NOT NULL COLLATE C
revalidations.seen bigint NOT NULL
revalidations.released bigint NOT NULL
revalidations.quarantined bigint NOT NULL
revalidations.requested_at text NOT NULL COLLATE C
revalidations.finished_at text NOT NULL COLLATE C
search_docs.id bigint NOT NULL
search_docs.uri text NOT NULL COLLATE C
search_docs.words text NOT NULL COLLATE C
sessions.uri text NOT NULL COLLATE C
sessions.did text NOT NULL COLLATE C
sessions.rkey text NOT NULL COLLATE C
sessions.title text NOT NULL COLLATE C
sessions.status text NOT NULL COLLATE C
sessions.harness text NOT NULL COLLATE C
sessions.machine text NOT NULL COLLATE C
sessions.cwd text NOT NULL COLLATE C
sessions.repo text NOT NULL COLLATE C
sessions.repo_key text NOT NULL COLLATE C
sessions.branch text NOT NULL COLLATE C
sessions.model text NOT NULL COLLATE C
sessions.written_at text NOT NULL COLLATE C
sessions.started_at text NOT NULL COLLATE C
sessions.sort_at text NOT NULL COLLATE C
settings.name text NOT NULL COLLATE C
settings.value bytea NOT NULL
skills.uri text NOT NULL COLLATE C
skills.did text NOT NULL COLLATE C
skills.name text NOT NULL COLLATE C
skills.name_key text NOT NULL COLLATE C
skills.sort_at text NOT NULL COLLATE C
sources.name text NOT NULL COLLATE C
sources.cursor bigint NOT NULL
sources.updated_at text NOT NULL COLLATE C
takedowns.uri text NOT NULL COLLATE C
takedowns.taken_at text NOT NULL COLLATE C
trust_journal.seq bigint NOT NULL IDENTITY ALWAYS
trust_journal.name text NOT NULL COLLATE C
trust_journal.members text NOT NULL COLLATE C
trust_journal.source text NOT NULL COLLATE C
trust_journal.changed_at text NOT NULL COLLATE C
trust_members.did text NOT NULL COLLATE C
trust_members.circle text NOT NULL COLLATE C

blob_refs blob_refs_pkey PRIMARY KEY (uri, cid)
chain_branches chain_branches_pkey PRIMARY KEY (branch)
chain_nodes chain_nodes_pkey PRIMARY KEY (uri)
changes changes_pkey PRIMARY KEY (seq)
citation_queue citation_queue_pkey PRIMARY KEY (kind, uri)
citations citations_pkey PRIMARY KEY (from_uri, path)
classes classes_pkey PRIMARY KEY (uri)
commit_marks commit_marks_pkey PRIMARY KEY (mark)
content_tests content_tests_pkey PRIMARY KEY (did, cid, test)
conversations conversations_pkey PRIMARY KEY (uri)
findings findings_pkey PRIMARY KEY (uri, code, path, cid)
index_state index_state_id_check CHECK ((id = 1))
index_state index_state_pkey PRIMARY KEY (id)
journal journal_pkey PRIMARY KEY (seq)
lexicon_state lexicon_state_id_check CHECK ((id = 1))
lexicon_state lexicon_state_pkey PRIMARY KEY (id)
lexicons lexicons_pkey PRIMARY KEY (nsid)
messages messages_pkey PRIMARY KEY (uri)
observations observations_pkey PRIMARY KEY (uri)
proofs proofs_pkey PRIMARY KEY (id)
purged purged_pkey PRIMARY KEY (cid, uri)
records records_pkey PRIMARY KEY (uri)
refs refs_pkey PRIMARY KEY (from_uri, path)
repos repos_pkey PRIMARY KEY (did)
revalidations revalidations_pkey PRIMARY KEY (collection)
search_docs search_docs_pkey PRIMARY KEY (id)
search_docs search_docs_uri_key UNIQUE (uri)
sessions sessions_pkey PRIMARY KEY (uri)
settings settings_pkey PRIMARY KEY (name)
skills skills_pkey PRIMARY KEY (uri)
sources sources_pkey PRIMARY KEY (name)
takedowns takedowns_pkey PRIMARY KEY (uri)
trust_journal trust_journal_pkey PRIMARY KEY (seq)
trust_members trust_members_pkey PRIMARY KEY (did)

CREATE INDEX blob_refs_blob ON public.blob_refs USING btree (did, cid);
CREATE UNIQUE INDEX blob_refs_pkey ON public.blob_refs USING btree (uri, cid);
CREATE INDEX chain_branches_chain ON public.chain_branches USING btree (chain);
CREATE UNIQUE INDEX chain_branches_pkey ON public.chain_branches USING btree (branch);
CREATE INDEX chain_nodes_branch ON public.chain_nodes USING btree (branch, "position");
CREATE INDEX chain_nodes_chain ON public.chain_nodes USING btree (chain, "position", uri);
CREATE INDEX chain_nodes_foreign ON public.chain_nodes USING btree (did) WHERE ((target_uri <> ''::text) AND (substr(target_uri, 6, (length(did) + 1)) <> (did || '/'::text)));
CREATE INDEX chain_nodes_ignored ON public.chain_nodes USING btree (did) WHERE (edge = 'ignored'::text);
CREATE UNIQUE INDEX chain_nodes_pkey ON public.chain_nodes USING btree (uri);
CREATE INDEX chain_nodes_target ON public.chain_nodes USING btree (target_uri, edge);
CREATE UNIQUE INDEX changes_pkey ON public.changes USING btree (seq);
CREATE INDEX citation_queue_due ON public.citation_queue USING btree (due_at, kind, uri);
CREATE UNIQUE INDEX citation_queue_pkey ON public.citation_queue USING btree (kind, uri);
CREATE INDEX citations_head ON public.citations USING btree (head_uri, from_uri);
CREATE UNIQUE INDEX citations_pkey ON public.citations USING btree (from_uri, path);
CREATE INDEX citations_target ON public.citations USING btree (target_uri, relation, from_uri, path);
CREATE INDEX classes_did ON public.classes USING btree (did, name_key, uri);
CREATE INDEX classes_name ON public.classes USING btree (name_key, uri);
CREATE UNIQUE INDEX classes_pkey ON public.classes USING btree (uri);
CREATE UNIQUE INDEX commit_marks_pkey ON public.commit_marks USING btree (mark);
CREATE UNIQUE INDEX content_tests_pkey ON public.content_tests USING btree (did, cid, test);
CREATE INDEX conversations_all ON public.conversations USING btree (sort_at, uri);
CREATE INDEX conversations_did ON public.conversations USING btree (did, sort_at, uri);
CREATE UNIQUE INDEX conversations_pkey ON public.conversations USING btree (uri);
CREATE INDEX findings_at ON public.findings USING btree (at, uri, code, path, cid);
CREATE INDEX findings_code ON public.findings USING btree (code, at, uri);
CREATE INDEX findings_did ON public.findings USING btree (did, at, uri);
CREATE UNIQUE INDEX findings_pkey ON public.findings USING btree (uri, code, path, cid);
CREATE INDEX findings_severity ON public.findings USING btree (severity, at, uri);
CREATE UNIQUE INDEX index_state_pkey ON public.index_state USING btree (id);
CREATE UNIQUE INDEX journal_pkey ON public.journal USING btree (seq);
CREATE INDEX journal_uri ON public.journal USING btree (uri, seq);
CREATE UNIQUE INDEX lexicon_state_pkey ON public.lexicon_state USING btree (id);
CREATE UNIQUE INDEX lexicons_pkey ON public.lexicons USING btree (nsid);
CREATE UNIQUE INDEX messages_pkey ON public.messages USING btree (uri);
CREATE INDEX messages_session ON public.messages USING btree (session_uri, foreigner, uri);
CREATE INDEX messages_time ON public.messages USING btree (session_uri, foreigner, sort_at);
CREATE INDEX observations_all ON public.observations USING btree (sort_at, uri);
CREATE INDEX observations_device ON public.observations USING btree (device, sort_at, uri);
CREATE INDEX observations_did ON public.observations USING btree (did, sort_at, uri);
CREATE INDEX observations_heads ON public.observations USING btree (sort_at, uri) WHERE head;
CREATE INDEX observations_heads_did ON public.observations USING btree (did, sort_at, uri) WHERE head;
CREATE INDEX observations_heads_method ON public.observations USING btree (method, sort_at, uri) WHERE head;
CREATE INDEX observations_heads_source ON public.observations USING btree (source_key, sort_at, uri) WHERE head;
CREATE INDEX observations_method ON public.observations USING btree (method, sort_at, uri);
CREATE INDEX observations_model ON public.observations USING btree (model, sort_at, uri);
CREATE UNIQUE INDEX observations_pkey ON public.observations USING btree (uri);
CREATE INDEX observations_run ON public.observations USING btree (run, sort_at, uri);
CREATE INDEX observations_run_did ON public.observations USING btree (run, did, uri);
CREATE INDEX observations_source ON public.observations USING btree (source_key, sort_at, uri);
CREATE UNIQUE INDEX proofs_commit ON public.proofs USING btree (did, rev, commit_cid);
CREATE UNIQUE INDEX proofs_pkey ON public.proofs USING btree (id);
CREATE UNIQUE INDEX purged_pkey ON public.purged USING btree (cid, uri);
CREATE INDEX purged_uri ON public.purged USING btree (uri);
CREATE INDEX records_collection ON public.records USING btree (collection, state, uri);
CREATE UNIQUE INDEX records_pkey ON public.records USING btree (uri);
CREATE INDEX records_quarantined ON public.records USING btree (uri) WHERE (state = 'quarantined'::text);
CREATE INDEX records_repo ON public.records USING btree (did, collection, rkey);
CREATE UNIQUE INDEX refs_pkey ON public.refs USING btree (from_uri, path);
CREATE INDEX refs_target ON public.refs USING btree (target_uri, kind, from_uri);
CREATE INDEX repos_handle ON public.repos USING btree (handle);
CREATE UNIQUE INDEX repos_pkey ON public.repos USING btree (did);
CREATE INDEX repos_sync ON public.repos USING btree (sync, did);
CREATE UNIQUE INDEX revalidations_pkey ON public.revalidations USING btree (collection);
CREATE INDEX search_docs_fts ON public.search_docs USING gin (array_to_tsvector(string_to_array(words, ' '::text)));
CREATE UNIQUE INDEX search_docs_pkey ON public.search_docs USING btree (id);
CREATE UNIQUE INDEX search_docs_uri_key ON public.search_docs USING btree (uri);
CREATE INDEX sessions_all ON public.sessions USING btree (sort_at, uri);
CREATE INDEX sessions_did ON public.sessions USING btree (did, sort_at, uri);
CREATE INDEX sessions_machine ON public.sessions USING btree (machine, sort_at, uri);
CREATE UNIQUE INDEX sessions_pkey ON public.sessions USING btree (uri);
CREATE INDEX sessions_repo ON public.sessions USING btree (repo_key, sort_at, uri);
CREATE INDEX sessions_rkey ON public.sessions USING btree (rkey, sort_at, uri);
CREATE INDEX sessions_status ON public.sessions USING btree (status, sort_at, uri);
CREATE UNIQUE INDEX settings_pkey ON public.settings USING btree (name);
CREATE INDEX skills_did ON public.skills USING btree (did, name_key, uri);
CREATE UNIQUE INDEX skills_pkey ON public.skills USING btree (uri);
CREATE UNIQUE INDEX sources_pkey ON public.sources USING btree (name);
CREATE UNIQUE INDEX takedowns_pkey ON public.takedowns USING btree (uri);
CREATE INDEX trust_journal_name ON public.trust_journal USING btree (name, seq);
CREATE UNIQUE INDEX trust_journal_pkey ON public.trust_journal USING btree (seq);
CREATE UNIQUE INDEX trust_members_pkey ON public.trust_members USING btree (did);
