#!/usr/bin/env node
// Moves one account from host to host as its owner's client does, through
// @atproto/api, and shows that nothing changed but the host: the same DID, the
// same records under the same CIDs, the same bytes of each blob.
//
// Each move is the flow that clients know (https://atproto.com/guides/account-migration):
//
//   1. a service token of the old host proves the DID to the new one, which makes
//      a deactivated account; a host where the account was before is logged in to
//   2. getRepo -> importRepo
//   3. listMissingBlobs -> getBlob -> uploadBlob
//   4. getPreferences -> putPreferences, where both hosts keep them
//   5. getRecommendedDidCredentials -> a PLC operation -> submitPlcOperation there.
//      The owner's own rotation key signs it, so that no mail is needed and no word
//      of the old host; or, with --admin-password, the old host does where it can,
//      with the one-time token that its operator looks up (signPlcOperation).
//   6. checkAccountStatus, activateAccount there, deactivateAccount here
//
// A did:web has no directory: the host that issued it serves its document for
// ever, and points it where its owner says (garden.herbarium.moveIdentity).
//
// Between the moves the account writes: creates, an update, a delete, each with
// its blobs. The exports are read with @atproto/repo, which checks hashes, the
// signature and the tree. Whether the firehoses join is left to whoever calls
// this: --report FILE gets {"did", "stays": [{"host", "key"}], "records": {path: cid}}.

import { createHash, randomBytes } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { request } from 'node:http'
import { parseArgs } from 'node:util'
import { AtpAgent } from '@atproto/api'
import { Secp256k1Keypair } from '@atproto/crypto'
import { verifyRepoCar } from '@atproto/repo'
import * as plc from '@did-plc/lib'
import { checks, must, same } from './checks.mjs'

const HELP = `usage: node migration.mjs PLC_URL HOST HOST… [--report FILE] [--admin-password PASSWORD]

Makes an account at the first host and moves it to each of the others in turn; a
host may come again. The hosts take accounts without an invite, let anybody read,
and use the directory at PLC_URL; the first one gives did:plc or did:web.
`

const NOTE = 'com.example.note' // no host has a lexicon for it
const OBSERVATION = 'garden.engram.agents.observation'

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: { help: { type: 'boolean', short: 'h' }, report: { type: 'string' }, 'admin-password': { type: 'string' } },
})
if (options.help || positionals.length < 3) {
  ;(options.help ? process.stdout : process.stderr).write(HELP)
  process.exit(options.help ? 0 : 1)
}
const [plcURL, ...route] = positionals

const { check, refused, finish } = checks()
const directory = new plc.Client(plcURL)
const owner = await Secp256k1Keypair.create() // what makes the owner independent of every host
const name = `mover-${randomBytes(4).toString('hex')}`
const password = randomBytes(12).toString('base64url')
const email = `${name}@mail.example`

/** Runs one step that the rest stands on: without it there is no point in going on. */
async function step(what, run) {
  let failed = true
  const result = await check(what, async () => {
    const answer = await run()
    failed = false
    return answer
  })
  if (failed) finish()
  return result
}

/** A client that stays at one host: by itself it goes where the DID document of its session points, in the middle of a move. */
function clientAt(host) {
  const agent = new AtpAgent({ service: host })
  Object.defineProperty(agent.sessionManager, 'pdsUrl', { get: () => undefined, set() {} })
  return agent
}

/** What the account must have, wherever it is: path -> CID, and the blobs by CID. */
const records = new Map()
const blobs = new Map()
let did

async function handleAt(agent) {
  const { data } = await agent.com.atproto.server.describeServer()
  return { service: data.did, handle: name + data.availableUserDomains[0] }
}

// --- what the account writes

const kept = ({ uri, cid }) => records.set(uri.slice(`at://${did}/`.length), cid)

async function upload(agent, size, encoding) {
  const bytes = randomBytes(size)
  const { data } = await agent.uploadBlob(bytes, { encoding })
  same(Buffer.from(data.blob.ref.multihash.digest).toString('hex'), createHash('sha256').update(bytes).digest('hex'), 'the CID is the hash')
  blobs.set(data.blob.ref.toString(), { bytes, encoding })
  return data.blob
}

/** The bytes of a blob. @atproto/api's own getBlob answers a text as a string, which bytes that are none do not survive. */
async function download(agent, cid) {
  const response = await agent.fetchHandler(`/xrpc/com.atproto.sync.getBlob?${new URLSearchParams({ did, cid })}`, { method: 'GET' })
  must(response.ok, `getBlob ${cid}: ${response.status}`)
  return { bytes: Buffer.from(await response.arrayBuffer()), encoding: response.headers.get('content-type') }
}

/** One round of writes: 30 records at once, one observation with a blob, an update, a delete. */
async function live(agent, round) {
  const repo = agent.com.atproto.repo
  const create = async (collection, record) => kept((await repo.createRecord({ repo: did, collection, record })).data)
  const { data } = await repo.applyWrites({
    repo: did,
    writes: Array.from({ length: 30 }, (_, n) => ({
      $type: 'com.atproto.repo.applyWrites#create', collection: NOTE, rkey: `round-${round}-${n}`, value: { $type: NOTE, text: `round ${round}, ${n}` },
    })),
  })
  data.results.forEach(kept)
  const now = new Date().toISOString()
  await create(OBSERVATION, {
    $type: OBSERVATION, text: `seen in round ${round}`, method: 'random', observedAt: now, createdAt: now,
    source: { kind: 'command', value: 'random' }, generator: { run: '3mmzzzzzzzz2a' }, content: await upload(agent, 200_000 + round, 'application/x-test'),
  })
  await create(NOTE, { $type: NOTE, text: 'two more', blobs: [await upload(agent, 1, 'text/plain'), await upload(agent, 70_000, 'application/x-test')] })
  const changed = await repo.putRecord({ repo: did, collection: NOTE, rkey: `round-${round}-1`, record: { $type: NOTE, text: `changed in round ${round}` } })
  kept(changed.data)
  await repo.deleteRecord({ repo: did, collection: NOTE, rkey: `round-${round}-2` })
  records.delete(`${NOTE}/round-${round}-2`)
}

// --- what must hold at each host

async function holds(agent, host) {
  const { signingKey, pds } = await documentData()
  await check(`${host}: the DID document names it`, () => same(pds, host, 'endpoint'))
  await check(`${host}: the export, with its signature, has the same records under the same CIDs`, async () => {
    const { data } = await agent.com.atproto.sync.getRepo({ did })
    const { creates } = await verifyRepoCar(data, did, signingKey)
    const found = creates.map(({ collection, rkey, cid }) => [`${collection}/${rkey}`, cid.toString()])
    same(found.sort(), [...records].sort(), 'records')
  })
  await check(`${host}: each of ${blobs.size} blobs is there, byte for byte, and no other`, async () => {
    const { data } = await agent.com.atproto.sync.listBlobs({ did, limit: 1000 })
    same([...data.cids].sort(), [...blobs.keys()].sort(), 'listBlobs')
    for (const [cid, { bytes, encoding }] of blobs) {
      const got = await download(agent, cid)
      must(got.bytes.equals(bytes), `the bytes of ${cid} differ`)
      same(got.encoding.split(';')[0], encoding, `the type of ${cid}`)
    }
  })
  stays.push({ host, key: signingKey })
}

async function documentData() {
  if (did.startsWith('did:web:')) {
    const { verificationMethod, service } = await issuedDocument()
    return { signingKey: `did:key:${verificationMethod[0].publicKeyMultibase}`, pds: service[0].serviceEndpoint }
  }
  const { verificationMethods, services } = await directory.getDocumentData(did)
  return { signingKey: verificationMethods.atproto, pds: services.atproto_pds.endpoint }
}

/** The document of a did:web, from the host that issued it: on loopback its name is no address, but a Host header. */
function issuedDocument() {
  return new Promise((resolve, reject) => {
    request(new URL('/.well-known/did.json', route[0]), { headers: { host: did.slice('did:web:'.length) } }, async (response) => {
      let text = ''
      for await (const chunk of response.setEncoding('utf8')) text += chunk
      response.statusCode === 200 ? resolve(JSON.parse(text)) : reject(new Error(`did.json: ${response.statusCode} ${text}`))
    })
      .on('error', reject)
      .end()
  })
}

// --- a move

/** The account at a host: the one that it had there before, or a new one that brings its DID. */
async function enter(old, host) {
  const agent = clientAt(host)
  const { service, handle } = await handleAt(agent)
  if (stays.some((stay) => stay.host === host)) {
    await agent.login({ identifier: did, password })
    return agent
  }
  const { data: proof } = await old.com.atproto.server.getServiceAuth({ aud: service, lxm: 'com.atproto.server.createAccount' })
  await refused(`${host}: an account for the DID without proof of it`, 401, () => new AtpAgent({ service: host }).createAccount({ did, handle, email, password }))
  const { data } = await agent.com.atproto.server.createAccount(
    { did, handle, email, password },
    { headers: { authorization: `Bearer ${proof.token}` }, encoding: 'application/json' },
  )
  same(data.did, did, 'did')
  await agent.resumeSession({ ...data, active: false })
  return agent
}

async function bringBlobs(from, to) {
  let brought = 0
  for (let cursor; ; ) {
    const { data } = await to.com.atproto.repo.listMissingBlobs({ limit: 2, cursor })
    for (const { cid } of data.blobs) {
      const { bytes, encoding } = await download(from, cid)
      await to.com.atproto.repo.uploadBlob(bytes, { encoding })
      brought++
    }
    cursor = data.cursor
    if (!cursor || data.blobs.length === 0) return brought
  }
}

const keepsPreferences = (agent) => agent.app.bsky.actor.getPreferences().then(() => true, () => false)

async function bringPreferences(from, to) {
  const { data } = await from.app.bsky.actor.getPreferences()
  await to.app.bsky.actor.putPreferences({ preferences: data.preferences })
  same((await to.app.bsky.actor.getPreferences()).data.preferences, data.preferences, 'preferences')
}

/** Points the DID at the new host. */
async function point(old, agent) {
  const { data: wanted } = await agent.com.atproto.identity.getRecommendedDidCredentials()
  if (did.startsWith('did:web:')) return pointWeb(wanted)
  wanted.rotationKeys = [owner.did(), ...wanted.rotationKeys.filter((key) => key !== owner.did())]
  const operation = (await signedByHost(old, wanted)) ?? (await signedByOwner(wanted))
  await agent.com.atproto.identity.submitPlcOperation({ operation })
}

/** The issuer points the document; at its own name, when the account comes home. */
async function pointWeb({ alsoKnownAs, services, verificationMethods }) {
  const { endpoint } = services.atproto_pds
  const home = { endpoint, publicKey: verificationMethods.atproto, handle: alsoKnownAs[0].slice('at://'.length) }
  const response = await issuer.fetchHandler('/xrpc/garden.herbarium.moveIdentity', {
    method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(endpoint === route[0] ? {} : home),
  })
  must(response.ok, `moveIdentity: ${response.status} ${await response.text()}`)
}

async function signedByOwner(wanted) {
  return plc.createUpdateOp(await directory.getLastOp(did), owner, (before) => ({ ...before, ...wanted }))
}

/** Undefined where the operator's tokens are not for us: the reference sends them by mail only. */
async function signedByHost(old, wanted) {
  if (!options['admin-password']) return undefined
  const authorization = `Basic ${Buffer.from(`admin:${options['admin-password']}`).toString('base64')}`
  const list = () => fetch(new URL('/xrpc/garden.herbarium.admin.listOneTimeTokens', old.serviceUrl), { headers: { authorization } })
  if (!(await list()).ok) return undefined
  await old.com.atproto.identity.requestPlcOperationSignature()
  const { tokens } = await (await list()).json()
  const { token } = tokens.find((one) => one.did === did && one.purpose === 'plc_operation')
  return (await old.com.atproto.identity.signPlcOperation({ ...wanted, token })).data.operation
}

async function move(old, from, to) {
  const agent = await step(`${to}: an account for the DID, which is not active`, () => enter(old, to))
  await refused(`${to}: activation while the document names ${from}`, 400, () => agent.com.atproto.server.activateAccount())
  await step(`${from} -> ${to}: the repo`, async () => {
    const { data } = await old.com.atproto.sync.getRepo({ did })
    await agent.com.atproto.repo.importRepo(data, { encoding: 'application/vnd.ipld.car' })
  })
  await step(`${from} -> ${to}: the blobs`, async () => {
    must((await bringBlobs(old, agent)) > 0, 'none was missing')
    same(await bringBlobs(old, agent), 0, 'blobs that are missing yet')
  })
  if ((await keepsPreferences(old)) && (await keepsPreferences(agent))) await step(`${from} -> ${to}: the preferences`, () => bringPreferences(old, agent))
  await step(`${to}: checkAccountStatus says that all is there`, async () => {
    const { data: there } = await agent.com.atproto.server.checkAccountStatus()
    same(
      [there.activated, there.validDid, there.indexedRecords, there.expectedBlobs, there.importedBlobs],
      [false, false, records.size, blobs.size, blobs.size],
      'status',
    )
  })
  await step(`the DID document points to ${to}`, () => point(old, agent))
  await step(`${to}: activateAccount`, () => agent.com.atproto.server.activateAccount())
  await step(`${from}: deactivateAccount`, () => old.com.atproto.server.deactivateAccount({}))
  await check(`${from}: takes no more writes, and says that it is deactivated`, async () => {
    await refused(`${from}: a write`, 'AccountDeactivated', () => old.com.atproto.repo.createRecord({ repo: did, collection: NOTE, record: { $type: NOTE } }))
    const { data } = await old.com.atproto.sync.getRepoStatus({ did })
    same([data.active, data.status], [false, 'deactivated'], 'status')
  })
  return agent
}

// --- the way

const stays = []
let agent = await step(`${route[0]}: an account, of which a did:plc has a rotation key of its owner`, async () => {
  const first = clientAt(route[0])
  const { handle } = await handleAt(first)
  const { data } = await first.createAccount({ handle, email, password, recoveryKey: owner.did() })
  did = data.did
  if (did.startsWith('did:plc:')) same((await directory.getDocumentData(did)).rotationKeys[0], owner.did(), 'first rotation key')
  return first
})
const issuer = agent // of a did:web, for ever
if (await keepsPreferences(agent)) {
  await agent.app.bsky.actor.putPreferences({ preferences: [{ $type: 'app.bsky.actor.defs#adultContentPref', enabled: false }] })
}
for (const [round, host] of route.entries()) {
  if (round > 0) agent = await move(agent, route[round - 1], host)
  await step(`${host}: writes`, () => live(agent, round))
  await holds(agent, host)
}
if (options.report) await writeFile(options.report, JSON.stringify({ did, stays, records: Object.fromEntries(records) }))
finish()
