#!/usr/bin/env node
// Calls each com.atproto method that a repo host has to have, and what its
// lexicons call neighbours of them, through @atproto/api: what it answers, and
// the names of its errors. Every CAR is verified with @atproto/repo: exports with
// their signature, proofs of records that are there and of one that is not,
// blocks by their hash, changes since a rev applied to the export before them.
//
// At its end it compares the methods that succeeded with the list below, so
// that a method which is no longer called is missed. api-client.mjs goes further
// into records and blobs, migration.mjs into moving, firehose.mjs into events.

import { randomBytes } from 'node:crypto'
import { parseArgs } from 'node:util'
import { AtpAgent } from '@atproto/api'
import { verifySignature } from '@atproto/crypto'
import { IdResolver } from '@atproto/identity'
import { MemoryBlockstore, Repo, readCar, readCarWithRoot, verifyDiffCar, verifyProofs, verifyRepoCar, verifyRecords } from '@atproto/repo'
import { CID } from 'multiformats/cid'
import { checks, must, same } from './checks.mjs'

const HELP = `usage: node methods.mjs URL ADMIN_PASSWORD PLC_URL

Calls every method of a repo host at URL through the npm package @atproto/api. The host
asks for invites and gives did:plc accounts of the directory at PLC_URL. For test instances.
`

const METHODS = {
  'com.atproto.server': [
    'describeServer', 'createAccount', 'createSession', 'getSession', 'refreshSession', 'deleteSession',
    'createAppPassword', 'listAppPasswords', 'revokeAppPassword', 'getServiceAuth',
    'checkAccountStatus', 'activateAccount', 'deactivateAccount', 'createInviteCode', 'createInviteCodes', 'getAccountInviteCodes',
    'requestAccountDelete', 'deleteAccount', 'requestPasswordReset', 'resetPassword',
  ],
  'com.atproto.repo': [
    'createRecord', 'putRecord', 'deleteRecord', 'applyWrites', 'getRecord', 'listRecords', 'describeRepo',
    'uploadBlob', 'importRepo', 'listMissingBlobs',
  ],
  'com.atproto.sync': [
    'getRepo', 'getLatestCommit', 'getRecord', 'getBlocks', 'getRepoStatus', 'listRepos', 'listBlobs', 'getBlob',
  ],
  'com.atproto.identity': [
    'resolveHandle', 'updateHandle', 'getRecommendedDidCredentials',
    'requestPlcOperationSignature', 'signPlcOperation', 'submitPlcOperation',
  ],
  'com.atproto.admin': [
    'deleteAccount', 'getAccountInfo', 'getAccountInfos', 'updateAccountPassword', 'updateAccountHandle',
    'updateAccountEmail', 'updateSubjectStatus', 'getSubjectStatus',
    'getInviteCodes', 'disableInviteCodes', 'disableAccountInvites', 'enableAccountInvites',
  ],
  'com.atproto.temp': ['checkSignupQueue'],
  'app.bsky.actor': ['getPreferences', 'putPreferences'],
}

const NOTE = 'com.example.note' // a collection that the host has no lexicon for

const { values: options, positionals } = parseArgs({ allowPositionals: true, options: { help: { type: 'boolean', short: 'h' } } })
if (options.help || positionals.length !== 3) {
  ;(options.help ? process.stdout : process.stderr).write(HELP)
  process.exit(options.help ? 0 : 1)
}
const [service, adminPassword, plcUrl] = positionals
const { check, refused, finish } = checks()
const resolver = new IdResolver({ plcUrl })
const keyOf = (did) => resolver.did.resolveAtprotoKey(did, true)

/** The methods that answered with success. */
const succeeded = new Set()
async function fetchAndNote(input, init) {
  const response = await fetch(input, init)
  if (response.ok) succeeded.add(new URL(input instanceof Request ? input.url : input).pathname.replace('/xrpc/', ''))
  return response
}
const client = () => new AtpAgent({ service, fetch: fetchAndNote })

/** Runs a check that the rest stands on. */
async function need(what, test) {
  const result = await check(what, test)
  if (result === undefined || result === false) finish()
  return result
}

const anonymous = client()
const basic = { headers: { authorization: `Basic ${Buffer.from(`admin:${adminPassword}`).toString('base64')}` } }
const asAdmin = { ...basic, encoding: 'application/json' }
const bearer = (token) => ({ headers: { authorization: `Bearer ${token}` } })
const password = () => randomBytes(12).toString('base64url')
const { data: described } = await anonymous.com.atproto.server.describeServer()
const name = (word) => `${word}-${randomBytes(4).toString('hex')}${described.availableUserDomains[0]}`

/** A new account, logged in, with one invite. */
async function account(word) {
  const agent = client()
  const secret = password()
  const handle = name(word)
  const { data } = await anonymous.com.atproto.server.createInviteCode({ useCount: 1 }, asAdmin)
  await agent.createAccount({ handle, password: secret, inviteCode: data.code, email: `${handle.split('.')[0]}@mail.example` })
  return { agent, did: agent.session.did, handle, secret, server: agent.com.atproto.server, repo: agent.com.atproto.repo, sync: agent.com.atproto.sync }
}

const scout = await need('createInviteCode and createAccount', () => account('scout'))
const other = await need('a second account', () => account('other'))
const { did, server, repo, sync } = scout
const note = (text, more = {}) => repo.createRecord({ repo: did, collection: NOTE, record: { $type: NOTE, text }, ...more })

// --- com.atproto.server

await check('createInviteCodes', async () => {
  const { data } = await anonymous.com.atproto.server.createInviteCodes({ codeCount: 2, useCount: 3 }, asAdmin)
  same(data.codes.map(({ codes }) => codes.length), [2], 'codes')
})
await check('getAccountInviteCodes', async () => {
  const { data } = await anonymous.com.atproto.server.createInviteCode({ useCount: 1, forAccount: did }, asAdmin)
  same((await server.getAccountInviteCodes()).data.codes.map(({ code }) => code), [data.code], 'codes')
})
await refused('createInviteCodes by nobody', 'AuthMissing', () => anonymous.com.atproto.server.createInviteCodes({ codeCount: 1, useCount: 1 }))
await check('createSession by handle in capitals, and by DID', async () => {
  for (const identifier of [scout.handle.toUpperCase(), did]) {
    const { data } = await anonymous.com.atproto.server.createSession({ identifier, password: scout.secret })
    same([data.did, data.handle, data.active], [did, scout.handle, true], identifier)
  }
})
await check('a wrong password and an unknown account are told apart by nobody', async () => {
  const answers = []
  for (const identifier of [scout.handle, name('nobody')]) {
    await anonymous.com.atproto.server.createSession({ identifier, password: 'wrong password' }).catch((err) => answers.push([err.status, err.error, err.message]))
  }
  same(answers[0], answers[1], 'answers')
  same(answers[0].slice(0, 2), [401, 'AuthenticationRequired'], 'answer')
})
await refused('a token that is none', 'InvalidToken', () => anonymous.com.atproto.server.getSession({}, bearer('nonsense')))
await refused('a refresh token where an access token belongs', 'InvalidToken', () =>
  anonymous.com.atproto.server.getSession({}, bearer(scout.agent.session.refreshJwt)),
)
await check('getSession, refreshSession, deleteSession', async () => {
  const { data: session } = await anonymous.com.atproto.server.createSession({ identifier: did, password: scout.secret })
  const { data: own } = await anonymous.com.atproto.server.getSession({}, bearer(session.accessJwt))
  same([own.did, own.handle, own.active], [did, scout.handle, true], 'session')
  const { data: fresh } = await anonymous.com.atproto.server.refreshSession(undefined, bearer(session.refreshJwt))
  const { data: again } = await anonymous.com.atproto.server.refreshSession(undefined, bearer(session.refreshJwt))
  const id = (token) => JSON.parse(Buffer.from(token.split('.')[1], 'base64url')).jti
  same(id(fresh.refreshJwt), id(again.refreshJwt), 'the successor of a token that is used twice')
  await anonymous.com.atproto.server.deleteSession(undefined, bearer(fresh.refreshJwt))
  await refused('refreshSession after deleteSession', 'ExpiredToken', () => anonymous.com.atproto.server.refreshSession(undefined, bearer(fresh.refreshJwt)))
})
await check('createAppPassword, listAppPasswords, revokeAppPassword', async () => {
  const { data: made } = await server.createAppPassword({ name: 'harness' })
  must(/^[a-z2-7]{4}(-[a-z2-7]{4}){3}$/.test(made.password), 'not of the form xxxx-xxxx-xxxx-xxxx')
  await refused('a second app password of this name', 400, () => server.createAppPassword({ name: 'harness' }))
  const app = client()
  await app.login({ identifier: did, password: made.password })
  await app.com.atproto.repo.createRecord({ repo: did, collection: NOTE, record: { $type: NOTE, text: 'by an app password' } })
  await refused('an app password where the main one is asked for', 'InvalidToken', () => app.com.atproto.server.deactivateAccount({}))
  await refused('an app password that wants to talk for its account in chat', 400, () =>
    app.com.atproto.server.getServiceAuth({ aud: described.did, lxm: 'chat.bsky.convo.listConvos' }),
  )
  const { data: listed } = await server.listAppPasswords()
  same(listed.passwords.map((one) => one.name), ['harness'], 'names')
  const { refreshJwt } = app.session
  await server.revokeAppPassword({ name: 'harness' })
  await refused('its refresh token after it was revoked', 'ExpiredToken', () => anonymous.com.atproto.server.refreshSession(undefined, bearer(refreshJwt)))
  await refused('a login with it', 401, () => client().login({ identifier: did, password: made.password }))
})
await check('getServiceAuth: a token by the key of the account', async () => {
  const lxm = 'com.atproto.repo.uploadBlob'
  const { data } = await server.getServiceAuth({ aud: described.did, lxm })
  const [head, body, signature] = data.token.split('.')
  const claims = JSON.parse(Buffer.from(body, 'base64url'))
  same([claims.iss, claims.aud, claims.lxm], [did, described.did, lxm], 'claims')
  must(claims.exp - claims.iat <= 60 && claims.jti, 'not short, or without jti')
  must(await verifySignature(await keyOf(did), Buffer.from(`${head}.${body}`), Buffer.from(signature, 'base64url')), 'not signed by the account')
  const now = Math.floor(Date.now() / 1000)
  for (const [what, params] of Object.entries({
    'in the past': { exp: now - 60, lxm }, 'in two hours': { exp: now + 7200, lxm }, 'in two minutes, for every method': { exp: now + 120 },
  })) {
    await refused(`getServiceAuth that ends ${what}`, 'BadExpiration', () => server.getServiceAuth({ aud: described.did, ...params }))
  }
})
await check('putPreferences, getPreferences', async () => {
  const { actor } = scout.agent.app.bsky
  const preferences = [{ $type: 'app.bsky.actor.defs#adultContentPref', enabled: true }]
  await actor.putPreferences({ preferences })
  same((await actor.getPreferences()).data.preferences, preferences, 'preferences')
})
await check('checkSignupQueue', async () => same((await scout.agent.com.atproto.temp.checkSignupQueue()).data.activated, true, 'activated'))

// --- com.atproto.repo

const first = await need('createRecord', async () => (await note('first', { rkey: 'first' })).data)
await refused('createRecord under a key that is taken', 400, () => note('again', { rkey: 'first' }))
await refused('createRecord with validate and no lexicon', 'InvalidRequest', () => note('unknown', { validate: true }))
await refused('createRecord of another type than its collection', 'InvalidRequest', () =>
  repo.createRecord({ repo: did, collection: NOTE, record: { $type: 'com.example.other' }, validate: false }),
)
await refused('a number above 2^53', 'InvalidRequest', () =>
  repo.createRecord({ repo: did, collection: NOTE, record: { $type: NOTE, n: 2 ** 53 } }),
)
await check('putRecord: swapRecord null says that there is none', async () => {
  const put = (rkey, text, swapRecord) => repo.putRecord({ repo: did, collection: NOTE, rkey, record: { $type: NOTE, text }, swapRecord })
  await put('second', 'new', null)
  await refused('putRecord with swapRecord null over a record', 'InvalidSwap', () => put('second', 'newer', null))
  await refused('putRecord with the CID of a record that is not there', 'InvalidSwap', () => put('third', 'newer', first.cid))
})
await check('applyWrites answers in order', async () => {
  const { data } = await repo.applyWrites({
    repo: did,
    writes: [
      { $type: 'com.atproto.repo.applyWrites#create', collection: NOTE, rkey: 'fourth', value: { $type: NOTE, text: 'fourth' } },
      { $type: 'com.atproto.repo.applyWrites#update', collection: NOTE, rkey: 'second', value: { $type: NOTE, text: 'changed' } },
    ],
  })
  same(data.results.map((result) => result.$type.split('#')[1]), ['createResult', 'updateResult'], 'results')
})
await refused('applyWrites that updates what is not there', 400, () =>
  repo.applyWrites({ repo: did, writes: [{ $type: 'com.atproto.repo.applyWrites#update', collection: NOTE, rkey: 'nothing', value: { $type: NOTE } }] }),
)
await check('deleteRecord', () => repo.deleteRecord({ repo: did, collection: NOTE, rkey: 'fourth' }))
await refused('getRecord of what was deleted', 'RecordNotFound', () => repo.getRecord({ repo: did, collection: NOTE, rkey: 'fourth' }))
await check('getRecord, listRecords, describeRepo', async () => {
  same((await repo.getRecord({ repo: did, collection: NOTE, rkey: 'first', cid: first.cid })).data.cid, first.cid, 'cid')
  must((await repo.listRecords({ repo: did, collection: NOTE })).data.records.length >= 2, 'too few records')
  const { data } = await repo.describeRepo({ repo: did })
  same([data.did, data.handle, data.handleIsCorrect, data.didDoc.id], [did, scout.handle, true, did], 'repo')
})
const bytes = randomBytes(5000)
const { data: uploaded } = await need('uploadBlob', () => repo.uploadBlob(bytes, { encoding: 'application/x-test' }))
await refused('a blob under another type than it was uploaded with', 'InvalidMimeType', () =>
  repo.createRecord({ repo: did, collection: NOTE, record: { $type: NOTE, blob: { ...uploaded.blob.original, mimeType: 'image/png' } } }),
)
await check('a record with a blob', () => repo.createRecord({ repo: did, collection: NOTE, rkey: 'blob', record: { $type: NOTE, blob: uploaded.blob } }))
await check('listMissingBlobs', async () => same((await repo.listMissingBlobs()).data.blobs, [], 'blobs'))

// --- com.atproto.sync, with each CAR verified

/** The records of a verified export: path -> CID. */
async function exported() {
  const { data } = await sync.getRepo({ did })
  const { creates, commit } = await verifyRepoCar(data, did, await keyOf(did))
  return { car: data, commit, paths: new Map(creates.map(({ collection, rkey, cid }) => [`${collection}/${rkey}`, cid.toString()])) }
}

const whole = await need('getRepo: an export with a signature that holds', async () => {
  const repoNow = await exported()
  same(repoNow.paths.get(`${NOTE}/first`), first.cid, 'CID of the first record')
  must(!repoNow.paths.has(`${NOTE}/fourth`), 'a deleted record is in the export')
  return repoNow
})
await check('getLatestCommit and getRepoStatus name the commit of the export', async () => {
  const { root } = await readCarWithRoot(whole.car)
  const { data: latest } = await sync.getLatestCommit({ did })
  const { data: status } = await sync.getRepoStatus({ did })
  same([latest.cid, latest.rev, status.rev, status.active], [root.toString(), whole.commit.rev, whole.commit.rev, true], 'commit')
})
await check('getRepo since a rev: what it gives makes the new repo of the old', async () => {
  await note('since', { rkey: 'since' })
  await repo.deleteRecord({ repo: did, collection: NOTE, rkey: 'since' })
  await note('since', { rkey: 'since-2' })
  const { root, blocks } = await readCarWithRoot(whole.car)
  const before = await Repo.load(new MemoryBlockstore(blocks), root)
  const { data } = await sync.getRepo({ did, since: whole.commit.rev })
  must(data.length < whole.car.length, 'the changes are as large as the whole')
  const { writes } = await verifyDiffCar(before, data, did, await keyOf(did))
  same(writes.map((write) => `${write.action} ${write.rkey}`), ['create since-2'], 'writes')
})
await check('getRecord proves a record, and the absence of one', async () => {
  const key = await keyOf(did)
  const { data: there } = await sync.getRecord({ did, collection: NOTE, rkey: 'first' })
  const [claim] = await verifyRecords(there, did, key)
  same([claim.rkey, claim.record.text], ['first', 'first'], 'record')
  const { data: absent } = await sync.getRecord({ did, collection: NOTE, rkey: 'fourth' })
  const proven = await verifyProofs(absent, [{ collection: NOTE, rkey: 'fourth', cid: null }], did, key)
  same([proven.verified.length, proven.unverified.length], [1, 0], 'absence')
  const denied = await verifyProofs(there, [{ collection: NOTE, rkey: 'first', cid: null }], did, key)
  same(denied.verified.length, 0, 'a proof of presence taken for one of absence')
})
await check('getBlocks: each block that was asked for, by its hash', async () => {
  const cids = [whole.paths.get(`${NOTE}/first`), (await sync.getLatestCommit({ did })).data.cid]
  const { data } = await sync.getBlocks({ did, cids })
  const { blocks } = await readCar(data) // checks the hashes
  same(cids.filter((cid) => !blocks.has(CID.parse(cid))), [], 'blocks that are missing')
})
await refused('getBlocks of a block that no repo has', 'BlockNotFound', () =>
  sync.getBlocks({ did, cids: ['bafyreigh2akiscaildcqabsyg3dfr6chu3fgpregiymsck7e7aqa4s52zy'] }),
)
await check('listRepos names both accounts', async () => {
  const dids = []
  for (let cursor; ; ) {
    const { data } = await sync.listRepos({ limit: 1, cursor })
    dids.push(...data.repos.map((one) => one.did))
    cursor = data.cursor
    if (!cursor) break
  }
  same([did, other.did].filter((one) => !dids.includes(one)), [], 'repos that are missing')
})
await check('listBlobs and getBlob', async () => {
  const cid = uploaded.blob.ref.toString()
  same((await sync.listBlobs({ did })).data.cids, [cid], 'cids')
  must(Buffer.from((await sync.getBlob({ did, cid })).data).equals(bytes), 'the bytes differ')
})
for (const method of ['getRepo', 'getLatestCommit', 'listBlobs']) {
  await refused(`${method} of a DID that is not here`, 'RepoNotFound', () => sync[method]({ did: 'did:plc:aaaaaaaaaaaaaaaaaaaaaaaa' }))
}
await check('importRepo of the own export: records that came after it go', async () => {
  await repo.importRepo(whole.car, { encoding: 'application/vnd.ipld.car' })
  same([...(await exported()).paths].sort(), [...whole.paths].sort(), 'records')
})
await refused("importRepo of another's export", 'InvalidRequest', () => other.repo.importRepo(whole.car, { encoding: 'application/vnd.ipld.car' }))
await refused('importRepo of a CAR that is cut off', 'InvalidRequest', () =>
  repo.importRepo(whole.car.slice(0, whole.car.length - 20), { encoding: 'application/vnd.ipld.car' }),
)

// --- status

await check('checkAccountStatus', async () => {
  const { data } = await server.checkAccountStatus()
  same([data.activated, data.validDid, data.indexedRecords, data.expectedBlobs, data.importedBlobs], [true, true, whole.paths.size, 1, 1], 'status')
})
await check('deactivateAccount: no writes, no repo for others, but a session', async () => {
  await server.deactivateAccount({})
  await refused('a write', 'AccountDeactivated', () => note('while away'))
  await refused('the repo, for another account,', 'RepoDeactivated', () => other.sync.getRepo({ did }))
  await refused('its handle', 400, () => anonymous.com.atproto.identity.resolveHandle({ handle: scout.handle }))
  const { data: session } = await server.getSession()
  const { data: status } = await other.sync.getRepoStatus({ did })
  same([session.active, session.status, status.active, status.status], [false, 'deactivated', false, 'deactivated'], 'status')
})
await check('activateAccount: all is as before', async () => {
  await server.activateAccount()
  same([...(await exported()).paths].sort(), [...whole.paths].sort(), 'records')
})

// --- com.atproto.identity

await check('resolveHandle, updateHandle', async () => {
  const handle = name('renamed')
  await scout.agent.com.atproto.identity.updateHandle({ handle })
  same((await anonymous.com.atproto.identity.resolveHandle({ handle })).data.did, did, 'did')
  same((await resolver.did.resolveAtprotoData(did, true)).handle, handle, 'handle in the document')
  await refused('the old handle', 'HandleNotFound', () => anonymous.com.atproto.identity.resolveHandle({ handle: scout.handle }))
  scout.handle = handle
})
await refused("another's handle", 'InvalidRequest', () => scout.agent.com.atproto.identity.updateHandle({ handle: other.handle }))
await refused('a handle that is too short', 'InvalidHandle', () =>
  scout.agent.com.atproto.identity.updateHandle({ handle: `ab${described.availableUserDomains[0]}` }),
)
const recommended = await need('getRecommendedDidCredentials', async () => {
  const { data } = await scout.agent.com.atproto.identity.getRecommendedDidCredentials()
  same([data.alsoKnownAs, data.verificationMethods.atproto, data.services.atproto_pds.endpoint], [[`at://${scout.handle}`], await keyOf(did), service], 'credentials')
  return data
})

/** The one-time token that an account asked for: no mail is sent, the operator has it. */
async function oneTimeToken(did, purpose) {
  const response = await fetch(new URL('/xrpc/garden.herbarium.admin.listOneTimeTokens', service), basic)
  const { tokens } = await response.json()
  return tokens.find((token) => token.did === did && token.purpose === purpose)?.token
}

await check('requestPlcOperationSignature, signPlcOperation, submitPlcOperation', async () => {
  const { identity } = scout.agent.com.atproto
  await identity.requestPlcOperationSignature()
  const token = await oneTimeToken(did, 'plc_operation')
  await refused('signPlcOperation with a wrong token', 'InvalidToken', () => identity.signPlcOperation({ ...recommended, token: 'AAAAA-AAAAA' }))
  const { data } = await identity.signPlcOperation({ ...recommended, token, alsoKnownAs: [...recommended.alsoKnownAs, 'https://scout.example'] })
  await refused('signPlcOperation with a token that was used', 'InvalidToken', () => identity.signPlcOperation({ ...recommended, token }))
  const elsewhere = { ...data.operation, services: { atproto_pds: { ...recommended.services.atproto_pds, endpoint: 'https://elsewhere.example' } } }
  await refused('submitPlcOperation of what leads elsewhere', 'InvalidRequest', () => identity.submitPlcOperation({ operation: elsewhere }))
  await identity.submitPlcOperation({ operation: data.operation })
  same((await resolver.did.resolve(did, true)).alsoKnownAs, data.operation.alsoKnownAs, 'names in the document')
})

// --- com.atproto.admin

const admin = anonymous.com.atproto.admin
const repoRef = { $type: 'com.atproto.admin.defs#repoRef', did }
await check('getAccountInfo, getAccountInfos', async () => {
  const { data } = await admin.getAccountInfo({ did }, basic)
  same([data.did, data.handle], [did, scout.handle], 'account')
  const { data: both } = await admin.getAccountInfos({ dids: [did, other.did] }, basic)
  same(both.infos.map((info) => info.did).sort(), [did, other.did].sort(), 'accounts')
})
await refused('getAccountInfo by an account', 403, () => scout.agent.com.atproto.admin.getAccountInfo({ did }))
await refused('getAccountInfo of nobody', 'NotFound', () => admin.getAccountInfo({ did: 'did:plc:aaaaaaaaaaaaaaaaaaaaaaaa' }, basic))
await check('updateAccountPassword, updateAccountHandle', async () => {
  scout.secret = password()
  await admin.updateAccountPassword({ did, password: scout.secret }, asAdmin)
  await scout.agent.login({ identifier: did, password: scout.secret })
  scout.handle = name('by-admin')
  await admin.updateAccountHandle({ did, handle: scout.handle }, asAdmin)
  same((await anonymous.com.atproto.identity.resolveHandle({ handle: scout.handle })).data.did, did, 'did')
})

await check('updateAccountEmail', async () => {
  const email = `${randomBytes(4).toString('hex')}@mail.example`
  await admin.updateAccountEmail({ account: did, email }, asAdmin)
  same((await admin.getAccountInfo({ did }, basic)).data.email, email, 'e-mail')
  scout.email = email
})
await check('getInviteCodes, disableInviteCodes, disableAccountInvites, enableAccountInvites', async () => {
  const { data } = await anonymous.com.atproto.server.createInviteCode({ useCount: 1 }, asAdmin)
  await admin.disableInviteCodes({ codes: [data.code] }, asAdmin)
  const { data: listed } = await admin.getInviteCodes({ limit: 100 }, basic)
  same(listed.codes.find((one) => one.code === data.code).disabled, true, 'disabled')
  await refused('an invite code that was disabled', 'InvalidInviteCode', () => client().createAccount({ handle: name('late'), password: password(), inviteCode: data.code }))
  for (const [change, disabled] of [['disableAccountInvites', true], ['enableAccountInvites', false]]) {
    await admin[change]({ account: did }, asAdmin)
    same((await admin.getAccountInfo({ did }, basic)).data.invitesDisabled, disabled, change)
  }
})

/** Takes a subject down, runs a test, and lets it up again. */
async function takenDown(subject, params, test) {
  await admin.updateSubjectStatus({ subject, takedown: { applied: true, ref: 'test' } }, asAdmin)
  const { data } = await admin.getSubjectStatus(params, basic)
  same([data.takedown.applied, data.takedown.ref], [true, 'test'], 'takedown')
  await test()
  await admin.updateSubjectStatus({ subject, takedown: { applied: false } }, asAdmin)
  same((await admin.getSubjectStatus(params, basic)).data.takedown.applied, false, 'takedown after it was lifted')
}
await check('updateSubjectStatus: a record', async () => {
  const uri = `at://${did}/${NOTE}/first`
  await takenDown({ $type: 'com.atproto.repo.strongRef', uri, cid: first.cid }, { uri }, () =>
    refused('a record that was taken down', 'RecordNotFound', () => other.repo.getRecord({ repo: did, collection: NOTE, rkey: 'first' })),
  )
  await other.repo.getRecord({ repo: did, collection: NOTE, rkey: 'first' })
})
await check('updateSubjectStatus: a blob', async () => {
  const cid = uploaded.blob.ref.toString()
  await takenDown({ $type: 'com.atproto.admin.defs#repoBlobRef', did, cid }, { did, blob: cid }, () =>
    refused('a blob that was taken down', 400, () => other.sync.getBlob({ did, cid })),
  )
  await other.sync.getBlob({ did, cid })
})
await check('updateSubjectStatus: an account', async () => {
  await takenDown(repoRef, { did }, async () => {
    await refused('a login of an account that was taken down', 'AccountTakedown', () => client().login({ identifier: did, password: scout.secret }))
    await refused('its repo', 'RepoTakendown', () => other.sync.getRepo({ did }))
    same((await other.sync.getRepoStatus({ did })).data.status, 'takendown', 'status')
  })
  await client().login({ identifier: did, password: scout.secret })
})

// --- the end of an account

await check('requestPasswordReset, resetPassword', async () => {
  await anonymous.com.atproto.server.requestPasswordReset({ email: scout.email })
  const token = await oneTimeToken(did, 'reset_password')
  await refused('resetPassword with a wrong token', 'InvalidToken', () => anonymous.com.atproto.server.resetPassword({ token: 'AAAAA-AAAAA', password: password() }))
  scout.secret = password()
  const { refreshJwt } = scout.agent.session
  await anonymous.com.atproto.server.resetPassword({ token, password: scout.secret })
  await refused('a session from before the reset', 'ExpiredToken', () => anonymous.com.atproto.server.refreshSession(undefined, bearer(refreshJwt)))
  await scout.agent.login({ identifier: did, password: scout.secret })
})
await check('admin.deleteAccount', async () => {
  await admin.deleteAccount({ did: other.did }, asAdmin)
  await refused('the repo of a deleted account', 'RepoNotFound', () => sync.getRepo({ did: other.did }))
  await refused('its login', 401, () => client().login({ identifier: other.did, password: other.secret }))
  await refused('getSession with its token', 'AccountNotFound', () => other.server.getSession())
})

await check('requestAccountDelete, deleteAccount', async () => {
  await server.requestAccountDelete()
  const token = await oneTimeToken(did, 'delete_account')
  const end = (more) => anonymous.com.atproto.server.deleteAccount({ did, password: scout.secret, token, ...more })
  await refused('deleteAccount with a wrong password', 'AuthenticationRequired', () => end({ password: 'wrong password' }))
  await refused('deleteAccount with a wrong token', 'InvalidToken', () => end({ token: 'AAAAA-AAAAA' }))
  await end({})
  await refused('a login after it', 401, () => client().login({ identifier: did, password: scout.secret }))
})

await check('every method was called', () => {
  const missed = Object.entries(METHODS).flatMap(([family, names]) => names.map((one) => `${family}.${one}`)).filter((method) => !succeeded.has(method))
  same(missed, [], 'methods that no call of succeeded')
})
finish()
