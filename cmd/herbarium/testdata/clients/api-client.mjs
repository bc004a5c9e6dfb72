#!/usr/bin/env node
// Uses a Herbarium host as any atproto program does: through @atproto/api, which
// checks every answer against the lexicons that it carries. It makes an account,
// writes, reads, uploads, downloads, meets each refusal, and logs out. Only the
// event stream is read with a websocket of its own, for @atproto/api has none.
//
// It writes one line per check and exits with code 1 when one failed.

import { createHash, randomBytes } from 'node:crypto'
import { on } from 'node:events'
import { parseArgs } from 'node:util'
import { AtpAgent } from '@atproto/api'
import { TID, cborDecodeMulti } from '@atproto/common'
import { CID } from 'multiformats/cid'
import WebSocket from 'ws'
import { checks, must, same } from './checks.mjs'

const HELP = `usage: node api-client.mjs URL ADMIN_PASSWORD

Checks the Herbarium host at URL through the npm package @atproto/api. It makes
two accounts and leaves their records behind: for test instances.
`

const OBSERVATION = 'garden.engram.agents.observation'
const SESSION = 'garden.engram.session'
const NOTE = 'com.example.note' // a collection that the host has no lexicon for

// A PNG of one pixel.
const PIXEL =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: { help: { type: 'boolean', short: 'h' } },
})
if (options.help) {
  process.stdout.write(HELP)
  process.exit(0)
}
if (positionals.length !== 2) {
  process.stderr.write(HELP)
  process.exit(1)
}
const [service, adminPassword] = positionals

const { check, refused, finish } = checks()

/** Runs one check that the rest stands on: without it there is no point in going on. */
async function need(what, test) {
  const result = await check(what, test)
  if (result === undefined || result === false) finish()
  return result
}

const anonymous = new AtpAgent({ service })
const basic = { authorization: `Basic ${Buffer.from(`admin:${adminPassword}`).toString('base64')}` }
const invite = async () =>
  (await anonymous.com.atproto.server.createInviteCode({ useCount: 1 }, { headers: basic, encoding: 'application/json' })).data.code

// --- accounts and sessions

const described = await need('describeServer', async () => {
  const { data } = await anonymous.com.atproto.server.describeServer()
  must(data.did.startsWith('did:'), `did is ${data.did}`)
  must(data.availableUserDomains.length > 0, 'no domain for handles')
  return data
})
const domain = described.availableUserDomains[0]
const handle = `api-${randomBytes(4).toString('hex')}${domain}`
const mail = (name) => `${name.split('.')[0]}@mail.example`
const password = randomBytes(12).toString('base64url')

await refused('createInviteCode with a wrong admin password', 401, () =>
  anonymous.com.atproto.server.createInviteCode(
    { useCount: 1 },
    { headers: { authorization: `Basic ${Buffer.from('admin:wrong').toString('base64')}` }, encoding: 'application/json' },
  ),
)
if (described.inviteCodeRequired) {
  await refused('createAccount without an invite code', 'InvalidInviteCode', () =>
    new AtpAgent({ service }).createAccount({ handle, password, email: mail(handle) }),
  )
}
const code = await need('the admin makes an invite code', invite)
const created = await need('createAccount', async () => {
  const { data } = await new AtpAgent({ service }).createAccount({ handle, password, inviteCode: code, email: mail(handle) })
  same(data.handle, handle, 'handle')
  return data
})
await refused('a used invite code', 'InvalidInviteCode', () =>
  new AtpAgent({ service }).createAccount({ handle: `again-${handle}`, password, inviteCode: code, email: mail(`again-${handle}`) }),
)
await refused('login with a wrong password', 'AuthenticationRequired', () =>
  new AtpAgent({ service }).login({ identifier: handle, password: 'not this one' }),
)

const agent = new AtpAgent({ service })
await need('login', async () => {
  await agent.login({ identifier: handle, password })
  same(agent.session.did, created.did, 'did')
  return true
})
const did = agent.session.did
await check('resolveHandle', async () => {
  const { data } = await agent.com.atproto.identity.resolveHandle({ handle })
  same(data.did, did, 'did')
})
await check('resumeSession', async () => {
  const resumed = new AtpAgent({ service })
  await resumed.resumeSession({ ...agent.session })
  same(resumed.session.did, did, 'did')
})
await check('getSession', async () => {
  const { data } = await agent.com.atproto.server.getSession()
  same([data.did, data.handle, data.active], [did, handle, true], 'session')
})
await check('refreshSession gives new tokens that work', async () => {
  const before = agent.session.refreshJwt
  await agent.sessionManager.refreshSession()
  must(agent.session.refreshJwt !== before, 'the refresh token did not change')
  const { data } = await agent.com.atproto.server.getSession()
  same(data.did, did, 'did')
})

// --- records

const repo = agent.com.atproto.repo
const now = () => new Date().toISOString()
const rkeyOf = (uri) => uri.split('/').at(-1)
const run = TID.nextStr()

/** A valid observation; parts of it are replaced by `other`. */
const observation = (text, other = {}) => ({
  $type: OBSERVATION,
  source: { kind: 'command', value: 'date' },
  method: 'run_command',
  observedAt: now(),
  createdAt: now(),
  text,
  generator: { run, device: 'test-machine', harness: 'api-client', model: 'none' },
  ...other,
})
const observe = async (text, other) =>
  (await repo.createRecord({ repo: did, collection: OBSERVATION, record: observation(text, other) })).data

const first = await need('createRecord of an observation', async () => {
  const data = await observe('Monday, noon')
  same(data.validationStatus, 'valid', 'validationStatus')
  must(data.uri.startsWith(`at://${did}/${OBSERVATION}/`), `uri is ${data.uri}`)
  must(data.commit?.cid && data.commit?.rev?.length === 13, 'no commit in the answer')
  CID.parse(data.cid)
  return data
})
await check('getRecord gives what was written', async () => {
  const { data } = await repo.getRecord({ repo: did, collection: OBSERVATION, rkey: rkeyOf(first.uri) })
  same([data.uri, data.cid, data.value.text], [first.uri, first.cid, 'Monday, noon'], 'record')
})
await check('getRecord by handle', async () => {
  const { data } = await repo.getRecord({ repo: handle, collection: OBSERVATION, rkey: rkeyOf(first.uri) })
  same(data.cid, first.cid, 'cid')
})
const second = await need('an observation supersedes another', () =>
  observe('Monday, one', { supersedes: { uri: first.uri, cid: first.cid } }),
)

const sessionKey = `session-${run}`
const session = (summary, other = {}) => ({
  $type: SESSION, title: 'A piece of work', summary, status: 'active', machine: 'test-machine', updatedAt: now(), ...other,
})
const put = (record, other = {}) => repo.putRecord({ repo: did, collection: SESSION, rkey: sessionKey, record, ...other })

const started = await need('putRecord makes a session', async () => (await put(session('begun'))).data)
const goneOn = await need('putRecord rewrites it with swapRecord', async () => {
  const { data } = await put(session('gone on'), { swapRecord: started.cid })
  same([data.uri, data.validationStatus], [started.uri, 'valid'], 'answer')
  must(data.cid !== started.cid, 'the CID did not change')
  return data
})
await check('putRecord of the same record makes no commit', async () => {
  const { data: stored } = await repo.getRecord({ repo: did, collection: SESSION, rkey: sessionKey })
  const { data } = await put(stored.value)
  same([data.cid, data.commit], [goneOn.cid, undefined], 'answer')
})

const notes = await need('applyWrites creates several records of an unknown collection in one commit', async () => {
  const writes = [1, 2, 3, 4, 5].map((n) => ({
    $type: 'com.atproto.repo.applyWrites#create', collection: NOTE, rkey: `note-${n}`, value: { $type: NOTE, text: `note ${n}` },
  }))
  const { data } = await repo.applyWrites({ repo: did, writes })
  same(data.results.map((result) => result.validationStatus), Array(5).fill('unknown'), 'validationStatus')
  return data.results
})
await check('applyWrites updates and deletes', async () => {
  const { data } = await repo.applyWrites({
    repo: did,
    writes: [
      { $type: 'com.atproto.repo.applyWrites#update', collection: NOTE, rkey: 'note-1', value: { $type: NOTE, text: 'changed' } },
      { $type: 'com.atproto.repo.applyWrites#delete', collection: NOTE, rkey: 'note-2' },
    ],
  })
  same(data.results.map((result) => result.$type?.split('#')[1]), ['updateResult', 'deleteResult'], 'results')
  must(data.results[0].cid !== notes[0].cid, 'the CID did not change')
})
await check('listRecords pages through them, newest key first', async () => {
  const seen = []
  let cursor
  do {
    const { data } = await repo.listRecords({ repo: did, collection: NOTE, limit: 2, cursor })
    must(data.records.length <= 2, 'a page is larger than its limit')
    seen.push(...data.records.map((record) => rkeyOf(record.uri)))
    cursor = data.records.length ? data.cursor : undefined
  } while (cursor)
  same(seen, ['note-5', 'note-4', 'note-3', 'note-1'], 'keys')
  const { data } = await repo.listRecords({ repo: did, collection: NOTE, reverse: true })
  same(data.records.map((record) => rkeyOf(record.uri)), [...seen].reverse(), 'keys in reverse')
})
await check('deleteRecord, twice', async () => {
  const { data } = await repo.deleteRecord({ repo: did, collection: NOTE, rkey: 'note-3' })
  must(data.commit?.cid, 'the first has no commit')
  const again = await repo.deleteRecord({ repo: did, collection: NOTE, rkey: 'note-3' })
  must(!again.data.commit, 'the second has a commit')
})
await refused('getRecord of a deleted record', 'RecordNotFound', () => repo.getRecord({ repo: did, collection: NOTE, rkey: 'note-3' }))
await check('describeRepo names the collections', async () => {
  const { data } = await repo.describeRepo({ repo: did })
  same([...data.collections].sort(), [NOTE, OBSERVATION, SESSION].sort(), 'collections')
  same(data.handle, handle, 'handle')
})

// --- blobs

const bytes = randomBytes(300_000)
const digest = createHash('sha256').update(bytes).digest('hex')
const getBlob = (cid, headers = {}) => agent.com.atproto.sync.getBlob({ did, cid }, { headers })

const blob = await need('uploadBlob', async () => {
  const { data } = await agent.uploadBlob(bytes, { encoding: 'application/x-test' })
  same([data.blob.mimeType, data.blob.size], ['application/x-test', bytes.length], 'blob')
  same(Buffer.from(data.blob.ref.multihash.digest).toString('hex'), digest, 'the CID is the hash')
  return data.blob
})
await refused('getBlob before a record references it', 400, () => getBlob(blob.ref.toString()))
await need('createRecord of an observation with the blob', () => observe('random bytes', { content: blob }))
await check('getBlob gives the same bytes', async () => {
  const { data, headers } = await getBlob(blob.ref.toString())
  must(Buffer.from(data).equals(bytes), 'the bytes differ')
  same(headers['content-type'], 'application/x-test', 'content-type')
  same(headers['x-content-type-options'], 'nosniff', 'x-content-type-options')
  must(/sandbox/.test(headers['content-security-policy'] ?? ''), 'no sandbox in the content security policy')
  must(/^attachment/.test(headers['content-disposition'] ?? ''), 'not an attachment')
})
await check('getBlob with Range', async () => {
  const { data, headers } = await getBlob(blob.ref.toString(), { range: 'bytes=1000-1999' })
  must(Buffer.from(data).equals(bytes.subarray(1000, 2000)), 'the bytes differ')
  same(headers['content-range'], `bytes 1000-1999/${bytes.length}`, 'content-range')
})
await check('listBlobs', async () => {
  const { data } = await agent.com.atproto.sync.listBlobs({ did })
  same(data.cids, [blob.ref.toString()], 'cids')
})
await check('a text keeps its declared type, an image is recognised', async () => {
  const html = await agent.uploadBlob(Buffer.from('<!doctype html><p>hello'), { encoding: 'text/html' })
  same(html.data.blob.mimeType, 'text/html', 'type of a page')
  const png = await agent.uploadBlob(Buffer.from(PIXEL, 'base64'), { encoding: 'text/plain' })
  same(png.data.blob.mimeType, 'image/png', 'type of an image')
})
await refused('a reference to bytes that were never uploaded', 'BlobNotFound', () =>
  observe('no such bytes', {
    content: { $type: 'blob', ref: CID.parse('bafkreigh2akiscaildcqabsyg3dfr6chu3fgpregiymsck7e7aqa4s52zy'), mimeType: 'text/plain', size: 3 },
  }),
)

// --- what is refused, and how it says what to do

await refused('swapRecord of an older version', 'InvalidSwap', () => put(session('too late'), { swapRecord: started.cid }))
await refused('swapCommit of an older commit', 'InvalidSwap', () =>
  repo.createRecord({ repo: did, collection: NOTE, record: { $type: NOTE, text: 'x' }, swapCommit: first.commit.cid }),
)
await refused('an edit of an observation', 'ImmutableRecord', () =>
  repo.putRecord({ repo: did, collection: OBSERVATION, rkey: rkeyOf(second.uri), record: observation('Monday, two') }),
)
await refused('an edit of an observation inside applyWrites', 'ImmutableRecord', () =>
  repo.applyWrites({
    repo: did,
    writes: [
      { $type: 'com.atproto.repo.applyWrites#update', collection: OBSERVATION, rkey: rkeyOf(second.uri), value: observation('Monday, two') },
    ],
  }),
)
await refused(
  'a second successor of one observation, with the head to supersede,',
  'AlreadySuperseded',
  () => observe('Monday, two', { supersedes: { uri: first.uri, cid: first.cid } }),
  (message) => message.endsWith(`; head ${second.uri} ${second.cid}`),
)
await check('the refusal named what is to be superseded instead', () =>
  observe('Monday, two', { supersedes: { uri: second.uri, cid: second.cid } }),
)
await refused('validate:false for an observation', 'ValidationRequired', () =>
  repo.createRecord({ repo: did, collection: OBSERVATION, record: observation('unchecked'), validate: false }),
)
await refused('an observation without its text', 'InvalidRequest', () => observe(undefined))
await refused('a fraction in a record', 'InvalidRequest', () =>
  repo.createRecord({ repo: did, collection: NOTE, record: { $type: NOTE, celsius: 21.5 } }),
)
await check('an observation can be deleted', async () => {
  const { uri } = await observe('to be deleted')
  await repo.deleteRecord({ repo: did, collection: OBSERVATION, rkey: rkeyOf(uri) })
  await refused('its key', 'RecordTombstoned', () =>
    repo.createRecord({ repo: did, collection: OBSERVATION, rkey: rkeyOf(uri), record: observation('again') }),
  )
})

const rival = new AtpAgent({ service })
await check('a second account', async () => {
  const name = `rival-${randomBytes(4).toString('hex')}${domain}`
  await rival.createAccount({ handle: name, password, inviteCode: await invite(), email: mail(name) })
  await rival.login({ identifier: name, password })
})
await refused("a write into another account's repo", 401, () =>
  rival.com.atproto.repo.createRecord({ repo: did, collection: NOTE, record: { $type: NOTE, text: 'not mine' } }),
)
await refused('a write without a credential', 401, () =>
  anonymous.com.atproto.repo.createRecord({ repo: did, collection: NOTE, record: { $type: NOTE, text: 'nobody' } }),
)
// Without @atproto/api, which calls only methods whose lexicon it carries.
const { visibility } = await (await fetch(new URL('/xrpc/garden.herbarium.describeService', service))).json()
if (visibility === 'public') {
  await check('anybody reads: this host is public', () => anonymous.com.atproto.sync.getRepo({ did }))
} else {
  const calls = {
    'com.atproto.repo.getRecord': () => anonymous.com.atproto.repo.getRecord({ repo: did, collection: OBSERVATION, rkey: rkeyOf(first.uri) }),
    'com.atproto.repo.listRecords': () => anonymous.com.atproto.repo.listRecords({ repo: did, collection: OBSERVATION }),
    'com.atproto.sync.getRepo': () => anonymous.com.atproto.sync.getRepo({ did }),
    'com.atproto.sync.getBlob': () => anonymous.com.atproto.sync.getBlob({ did, cid: blob.ref.toString() }),
    'com.atproto.sync.listRepos': () => anonymous.com.atproto.sync.listRepos(),
    'com.atproto.sync.getRepoStatus': () => anonymous.com.atproto.sync.getRepoStatus({ did }),
  }
  for (const [method, call] of Object.entries(calls)) {
    await refused(`${method} without a credential`, 'AuthMissing', call)
  }
}

// --- sync

await check('getLatestCommit and getRepoStatus agree', async () => {
  const { data: latest } = await agent.com.atproto.sync.getLatestCommit({ did })
  const { data: status } = await agent.com.atproto.sync.getRepoStatus({ did })
  same([status.active, status.rev], [true, latest.rev], 'status')
})
await check('subscribeRepos tells every write of this account', async () => {
  const { data: latest } = await agent.com.atproto.sync.getLatestCommit({ did })
  const ops = await operationsUpTo(latest.rev)
  for (const uri of [first.uri, second.uri]) {
    const creates = ops.filter((op) => op.uri === uri && op.action === 'create')
    same(creates.length, 1, `creates of ${uri} on the stream`)
  }
  same(ops.filter((op) => op.uri === started.uri).map((op) => op.action), ['create', 'update'], 'actions on the session')
})

/** Reads the event stream from its start to the account's commit with this rev. */
async function operationsUpTo(rev) {
  const url = new URL('/xrpc/com.atproto.sync.subscribeRepos?cursor=0', service)
  url.protocol = url.protocol === 'https:' ? 'wss:' : 'ws:'
  const socket = new WebSocket(url, { headers: basic })
  const timer = setTimeout(() => socket.close(), 20_000)
  const ops = []
  let lastSeq = 0
  try {
    // Ends with the socket; an error of the socket is thrown here.
    for await (const [frame] of on(socket, 'message', { close: ['close'] })) {
      const [header, body] = cborDecodeMulti(frame)
      must(header.op === 1, `an error frame: ${body.error} ${body.message}`)
      if (header.t === '#info') continue
      must(body.seq > lastSeq, `seq ${body.seq} after ${lastSeq}`)
      lastSeq = body.seq
      if (header.t !== '#commit' || body.repo !== did) continue
      ops.push(...body.ops.map((op) => ({ action: op.action, uri: `at://${did}/${op.path}` })))
      if (body.rev >= rev) return ops
    }
    throw new Error(`the stream ended before rev ${rev}, or took more than 20 s`)
  } finally {
    clearTimeout(timer)
    socket.terminate()
  }
}

// --- the end

const { refreshJwt } = agent.session
await check('deleteSession', () => agent.logout())
await refused('the refresh token after it', 'ExpiredToken', () =>
  anonymous.com.atproto.server.refreshSession(undefined, { headers: { authorization: `Bearer ${refreshJwt}` } }),
)
finish()
