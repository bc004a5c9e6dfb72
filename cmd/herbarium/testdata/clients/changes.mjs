#!/usr/bin/env node
// Follows a host's views with the Subscription of @atproto/xrpc-server, whose
// frames are read by that library, and checks each message against the lexicon
// of the subscription with @atproto/lexicon, while an account writes. What is
// told must be what was done, with the CIDs and revs that the writer was
// answered; a second follower starts in the middle and hears the rest.

import { randomBytes } from 'node:crypto'
import { readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { AtpAgent } from '@atproto/api'
import { Lexicons } from '@atproto/lexicon'
import { Subscription } from '@atproto/xrpc-server'
import { checks, must, same } from './checks.mjs'

const HELP = `usage: node changes.mjs URL LEXICONS

Follows the views of the host at URL by the lexicons in the folders LEXICONS
(separated by commas). The host gives accounts without an invite.
`

const METHOD = 'garden.herbarium.subscribeChanges'
const OBSERVATION = 'garden.engram.agents.observation'
const CLAIM = 'garden.herbarium.claim'
const NOTE = 'com.example.note'

const { values: options, positionals } = parseArgs({ allowPositionals: true, options: { help: { type: 'boolean', short: 'h' } } })
if (options.help || positionals.length !== 2) {
  ;(options.help ? process.stdout : process.stderr).write(HELP)
  process.exit(options.help ? 0 : 1)
}
const [service, folders] = positionals
const { check, finish } = checks()

const lexicons = new Lexicons()
for (const folder of folders.split(',')) {
  for (const name of readdirSync(folder)) {
    if (name.endsWith('.json')) lexicons.add(JSON.parse(readFileSync(join(folder, name), 'utf8')))
  }
}

const scout = new AtpAgent({ service })
const { data: described } = await scout.com.atproto.server.describeServer()
const unique = `changes-${randomBytes(4).toString('hex')}`
await scout.createAccount({
  handle: unique + described.availableUserDomains[0], password: randomBytes(12).toString('base64url'), email: `${unique}@mail.example`,
})
const did = scout.session.did

/** Reads messages until one is what is asked for; each must be valid. */
async function follow(params, last) {
  const heard = []
  const stop = new AbortController()
  const patience = setTimeout(() => stop.abort(new Error(`the stream told of ${heard.map(brief).join(', ') || 'nothing'} alone`)), 30_000)
  const changes = new Subscription({
    service: service.replace(/^http/, 'ws'),
    method: METHOD,
    signal: stop.signal,
    headers: { authorization: `Bearer ${scout.session.accessJwt}` },
    getParams: () => params,
    validate: (message) => lexicons.assertValidXrpcMessage(METHOD, message),
  })
  for await (const message of changes) {
    heard.push(message)
    if (last(message)) break
  }
  clearTimeout(patience)
  return heard
}

const brief = (m) => `${m.kind} ${m.code ?? ''} ${(m.uri ?? '').split('/').at(-1)}`

let clock = Date.now() * 1000
/** A record key, greater than the one before. */
function tid() {
  const digits = '234567abcdefghijklmnopqrstuvwxyz'
  let n = BigInt(clock++) << 10n
  let key = ''
  for (let i = 0; i < 13; i++, n >>= 5n) key = digits[Number(n & 31n)] + key
  return key
}

const now = () => new Date().toISOString()
const write = async (collection, record, rkey = tid()) =>
  (await scout.com.atproto.repo.createRecord({ repo: did, collection, rkey, record: { $type: collection, createdAt: now(), ...record } })).data
const observe = (text, supersedes) =>
  write(OBSERVATION, {
    source: { kind: 'command', value: 'make' }, method: 'bash', observedAt: now(), text, generator: { run: '3mmzzzzzzzz2a' }, supersedes,
  })
const strong = ({ uri, cid }) => ({ uri, cid })

const first = await observe('the build is green')
const claim = await write(CLAIM, {
  text: 'green',
  generator: { run: '3mmzzzzzzzz2a' },
  citations: [{
    span: { byteStart: 0, byteEnd: 5 }, relation: 'quotes', target: strong(first),
    selector: { $type: 'garden.engram.agents.defs#textQuote', exact: 'green' },
  }],
})
const mine = { did: [did], cursor: 0 }
await follow(mine, (m) => m.uri === claim.uri) // its citation holds, until there is another head
const second = await observe('it is red', strong(first))

const gone = (m) => m.code === 'evidence-gone'
const heard = await check('what was done is told, in order', async () => {
  const heard = await follow(mine, gone)
  const records = heard.filter((m) => m.$type === `${METHOD}#record`)
  same(records.map((m) => [m.kind, m.uri, m.cid, m.rev]), [first, claim, second].map((r) => ['created', r.uri, r.cid, r.commit.rev]), 'records')
  const [head] = heard.filter((m) => m.$type === `${METHOD}#head`)
  same([head.old.uri, head.old.cid, head.new.uri, head.new.cid], [first.uri, first.cid, second.uri, second.cid], 'head')
  return heard
})
await check('whose claim lost its support', () => {
  const [lost] = heard.filter(gone)
  same([lost.kind, lost.uri, lost.cid], ['findingAdded', claim.uri, claim.cid], 'finding')
  same(heard.filter((m) => m.support).map((m) => [m.uri, m.support]), [[claim.uri, 'lost']], 'citation')
})
await check('a cursor goes on behind what was heard', async () => {
  same(await follow({ ...mine, cursor: heard[1].seq }, gone), heard.slice(2), 'the rest')
})
await check('a filter leaves out the rest', async () => {
  same(await follow({ ...mine, kind: ['findingAdded'] }, gone), heard.filter((m) => m.kind === 'findingAdded'), 'findings')
})
await check('live, from now on', async () => {
  const live = follow({ did: [did], kind: ['created', 'deleted'] }, (m) => m.kind === 'deleted' && m.uri.endsWith('/last'))
  // The stream may open at any moment: what it tells first is one of these.
  const written = []
  let ended = false
  live.finally(() => (ended = true)).catch(() => {})
  while (!ended) {
    written.push((await write(NOTE, { text: 'note' })).uri)
    await write(NOTE, { text: 'note' }, 'last')
    await scout.com.atproto.repo.deleteRecord({ repo: did, collection: NOTE, rkey: 'last' })
  }
  const told = (await live).map((m) => m.uri)
  for (const uri of told) must(uri.endsWith('/last') || written.includes(uri), `${uri} was never written`)
})
finish()
