#!/usr/bin/env node
// Follows a host with @atproto/sync, which checks every frame against its
// lexicon, the signature of each commit against the key in the DID document, and
// each operation against the tree that was signed. Meanwhile an account writes,
// changes, deletes, takes another handle, is deactivated and activated again, and
// is deleted. What the follower was told must be what was done: each operation
// once and in order, with the CID that the writer was answered; and who starts
// later hears nothing more of the account than that it is gone.

import { randomBytes } from 'node:crypto'
import { request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { AtpAgent } from '@atproto/api'
import { P256Keypair } from '@atproto/crypto'
import { IdResolver } from '@atproto/identity'
import { Firehose, MemoryRunner } from '@atproto/sync'
import { checks, must, same } from './checks.mjs'

const HELP = `usage: node firehose.mjs URL ADMIN_PASSWORD PLC_URL

Follows the host at URL through the npm package @atproto/sync. The host gives
did:plc accounts without an invite and lets anybody read.
`

const NOTE = 'com.example.note'
const PATIENCE = 30_000 // ms that the stream may take to tell something

const { values: options, positionals } = parseArgs({ allowPositionals: true, options: { help: { type: 'boolean', short: 'h' } } })
if (options.help || positionals.length !== 3) {
  ;(options.help ? process.stdout : process.stderr).write(HELP)
  process.exit(options.help ? 0 : 1)
}
const [service, adminPassword, plcUrl] = positionals
const { check, finish } = checks()

/** Resolves identities as the library does, save that handles on loopback are not asked of DNS but of the host. */
const idResolver = new IdResolver({ plcUrl })
idResolver.handle.resolve = (handle) =>
  new Promise((resolve, reject) => {
    request(new URL('/.well-known/atproto-did', service), { headers: { host: handle } }, async (response) => {
      let text = ''
      for await (const chunk of response.setEncoding('utf8')) text += chunk
      resolve(response.statusCode === 200 ? text.trim() : undefined)
    })
      .on('error', reject)
      .end()
  })

/** Waits until there is a result, and answers it. */
async function until(result, complaint) {
  for (const deadline = Date.now() + PATIENCE; ; await sleep(20)) {
    const found = result()
    if (found) return found
    must(Date.now() < deadline, complaint())
  }
}

/** Starts a follower at the beginning of the stream. */
function follow(resolver = idResolver) {
  const events = []
  const errors = []
  const runner = new MemoryRunner({ startCursor: 0 })
  const firehose = new Firehose({
    service: service.replace(/^http/, 'ws'),
    idResolver: resolver,
    runner,
    subscriptionReconnectDelay: 100,
    handleEvent: (event) => void events.push(event),
    onError: (err) => void errors.push(err),
  })
  void firehose.start()
  /** Waits until the stream has told something that is so. */
  function told(what, is) {
    return until(() => events.find(is), () => `the stream never told of ${what}; it told of ${events.map(brief).join(', ') || 'nothing'}`)
  }
  // What destroy promises is kept only where the library was waiting for a frame.
  const stop = () => void firehose.destroy()
  return { events, errors, told, stop }
}

const brief = (event) =>
  event.collection ? `${event.event} ${event.rkey}` : event.event === 'account' ? `account ${event.active ? 'active' : event.status}` : event.event

async function account(name) {
  const agent = new AtpAgent({ service })
  const { data } = await agent.com.atproto.server.describeServer()
  const domain = data.availableUserDomains[0]
  const unique = `${name}-${randomBytes(4).toString('hex')}`
  await agent.createAccount({ handle: unique + domain, password: randomBytes(12).toString('base64url'), email: `${unique}@mail.example` })
  return { agent, did: agent.session.did, handle: agent.session.handle, domain, repo: agent.com.atproto.repo }
}

const live = follow()
const scout = await account('scout')
const other = await account('other')
const { did, repo } = scout

/** What was done, as the stream has to tell it. */
const done = ['identity', 'account active', 'sync']
const cids = new Map() // rkey -> the CIDs that it was given, in order
const write = (action, rkey, cid) => {
  done.push(`${action} ${rkey}`)
  cids.set(rkey, [...(cids.get(rkey) ?? []), cid])
}
const here = (event) => event.did === did

await check('a new account is told, with its handle', async () => {
  const event = await live.told('the identity', (event) => here(event) && event.event === 'identity')
  same(event.handle, scout.handle, 'handle')
})
await check('creates, updates and deletes', async () => {
  for (const rkey of ['a', 'b', 'c']) {
    const { data } = await repo.createRecord({ repo: did, collection: NOTE, rkey, record: { $type: NOTE, text: rkey } })
    write('create', rkey, data.cid)
  }
  const { data: changed } = await repo.putRecord({ repo: did, collection: NOTE, rkey: 'b', record: { $type: NOTE, text: 'changed' } })
  write('update', 'b', changed.cid)
  await repo.deleteRecord({ repo: did, collection: NOTE, rkey: 'a' })
  write('delete', 'a')
  const { data: batch } = await repo.applyWrites({
    repo: did,
    writes: [
      { $type: 'com.atproto.repo.applyWrites#create', collection: NOTE, rkey: 'd', value: { $type: NOTE, text: 'd' } },
      { $type: 'com.atproto.repo.applyWrites#update', collection: NOTE, rkey: 'b', value: { $type: NOTE, text: 'changed again' } },
      { $type: 'com.atproto.repo.applyWrites#delete', collection: NOTE, rkey: 'c' },
    ],
  })
  write('create', 'd', batch.results[0].cid)
  write('update', 'b', batch.results[1].cid)
  write('delete', 'c')
  await live.told('the batch', (event) => here(event) && event.event === 'create' && event.rkey === 'd')
})
await check('another handle', async () => {
  const handle = `renamed-${randomBytes(4).toString('hex')}${scout.domain}`
  await scout.agent.com.atproto.identity.updateHandle({ handle })
  done.push('identity')
  await live.told('the handle', (event) => here(event) && event.event === 'identity' && event.handle === handle)
})
await check('deactivation', async () => {
  await scout.agent.com.atproto.server.deactivateAccount({})
  done.push('account deactivated')
  await live.told('the deactivation', (event) => here(event) && event.status === 'deactivated')
})
await check('activation, and a write after it', async () => {
  await scout.agent.com.atproto.server.activateAccount()
  done.push('account active', 'identity', 'sync')
  const { data } = await repo.createRecord({ repo: did, collection: NOTE, rkey: 'e', record: { $type: NOTE, text: 'e' } })
  write('create', 'e', data.cid)
  await live.told('the write', (event) => here(event) && event.rkey === 'e')
})
await check('deletion', async () => {
  const { data: left } = await other.repo.createRecord({ repo: other.did, collection: NOTE, rkey: 'left', record: { $type: NOTE } })
  must(left.cid, 'no CID')
  await scout.agent.com.atproto.admin.deleteAccount(
    { did },
    { headers: { authorization: `Basic ${Buffer.from(`admin:${adminPassword}`).toString('base64')}` }, encoding: 'application/json' },
  )
  done.push('account deleted')
  await live.told('the deletion', (event) => here(event) && event.status === 'deleted')
})
live.stop()

const mine = live.events.filter(here)
await check('the follower met no frame that it could not parse, verify or authenticate', () =>
  same(live.errors.map((err) => `${err.message}: ${err.cause?.message}`), [], 'errors'),
)
await check(`it was told of all ${done.length} events of the account, each once, in order`, () => {
  same(mine.map(brief), done, 'events')
})
await check('with the CIDs that the writer was answered', () => {
  for (const [rkey, want] of cids) {
    const got = mine.filter((event) => event.rkey === rkey).map((event) => event.cid?.toString())
    same(got, want, rkey)
  }
})
await check('seq rises with every event, rev with every commit', () => {
  const seqs = mine.map((event) => event.seq)
  must(seqs.every((seq, i) => i === 0 || seq >= seqs[i - 1]), `seq: ${seqs}`)
  const revs = mine.filter((event) => event.rev).map((event) => event.rev)
  must(revs.every((rev, i) => i === 0 || rev >= revs[i - 1]), `rev: ${revs}`)
})

const late = follow()
await check('who follows from the start afterwards hears of the account only that it is gone', async () => {
  await late.told("the other account's note", (event) => event.did === other.did && event.rkey === 'left')
  await late.told('the deletion', (event) => here(event) && event.status === 'deleted')
  same(late.events.filter(here).map(brief), ['account deleted'], 'events')
  same(late.errors.map((err) => err.message), [], 'errors')
})
late.stop()

const someKey = (await P256Keypair.create()).did()
const misled = follow({ handle: idResolver.handle, did: { resolve: (d) => idResolver.did.resolve(d), resolveAtprotoKey: async () => someKey } })
await check('who is given another key believes no commit', async () => {
  await until(() => misled.errors.length > 0, () => 'nothing was wrong')
  same(misled.events.filter((event) => event.collection).map(brief), [], 'operations')
})
misled.stop()
finish()
