#!/usr/bin/env node
// Many programs learn something new of one observation at once: each of WRITERS
// clients tries to supersede the same head through @atproto/api. Exactly one
// wins; each of the others reads the head from the message of its refusal, for
// a public client keeps nothing else, and tries again with that alone. All must
// end in one chain.
//
// It writes one line per check and exits with code 1 when one failed.

import { parseArgs } from 'node:util'
import { AtpAgent } from '@atproto/api'
import { TID } from '@atproto/common'
import { checks, must, same } from './checks.mjs'

const HELP = `usage: node fork-race.mjs URL ADMIN_PASSWORD [WRITERS]

Races WRITERS clients (50 when left out) for the head of one chain at the host
URL. It makes one account and leaves its records behind: for test instances.
`

const OBSERVATION = 'garden.engram.agents.observation'
// The repair that ends the message of a refusal: "head AT-URI CID".
const HEAD = /(?:^|[;\s])head (at:\/\/\S+) (bafy[a-z2-7]+)$/

const { values, positionals } = parseArgs({ options: { help: { type: 'boolean' } }, allowPositionals: true })
if (values.help || positionals.length < 2) {
  process.stdout.write(HELP)
  process.exit(values.help ? 0 : 2)
}
const [url, adminPassword, count = '50'] = positionals
const writers = Number(count)

const observation = (text, supersedes) => ({
  $type: OBSERVATION,
  source: { kind: 'command', value: 'uname -a' },
  method: 'shell',
  text,
  observedAt: new Date().toISOString(),
  createdAt: new Date().toISOString(),
  generator: { run: TID.nextStr() },
  ...(supersedes && { supersedes }),
})

async function account() {
  const agent = new AtpAgent({ service: url })
  const invite = await agent.com.atproto.server.createInviteCode(
    { useCount: 1 },
    {
      encoding: 'application/json',
      headers: { authorization: 'Basic ' + Buffer.from('admin:' + adminPassword).toString('base64') },
    },
  )
  const password = 'fork-race-' + TID.nextStr()
  const handle = `race-${TID.nextStr().slice(-8)}.test`
  await agent.createAccount({ handle, email: `${handle.replaceAll('.', '-')}@example.com`, password, inviteCode: invite.data.code })
  return agent
}

// climb supersedes target, or whatever a refusal says is the head now, until it
// is taken. It answers with how often it was refused.
async function climb(agent, n, target) {
  for (let refused = 0; ; refused++) {
    try {
      const { data } = await agent.com.atproto.repo.createRecord({
        repo: agent.assertDid,
        collection: OBSERVATION,
        record: observation(`writer ${n}`, target),
      })
      return { refused, uri: data.uri, cid: data.cid, target }
    } catch (err) {
      must(err.error === 'AlreadySuperseded', `writer ${n}: ${err.error}: ${err.message}`)
      const head = HEAD.exec(err.message)
      must(head, `writer ${n}: no head at the end of: ${err.message}`)
      must(head[1] !== target.uri, `writer ${n}: the head that it was refused is named again`)
      target = { uri: head[1], cid: head[2] }
    }
  }
}

const { check, finish } = checks()
const agent = await account()
let first, done

await check('one observation to be superseded', async () => {
  const { data } = await agent.com.atproto.repo.createRecord({ repo: agent.assertDid, collection: OBSERVATION, record: observation('the first') })
  first = { uri: data.uri, cid: data.cid }
})

await check(`${writers} writers race, and each gets in with what its refusals said`, async () => {
  done = await Promise.all(Array.from({ length: writers }, (_, n) => climb(agent, n, first)))
  same(done.filter((d) => d.refused === 0).length, 1, 'writers that were never refused')
})

await check('they make one chain: each observation has one successor at most, and all are on it', async () => {
  const after = new Map()
  for (const d of done) {
    must(!after.has(d.target.uri), `${d.target.uri} has two successors`)
    after.set(d.target.uri, d)
  }
  let at = first.uri
  let length = 0
  while (after.has(at)) {
    at = after.get(at).uri
    length++
  }
  same(length, writers, 'length')
})

await check('the repo holds them all, linked as they were answered', async () => {
  const stored = new Map()
  for (let cursor; ; ) {
    const { data } = await agent.com.atproto.repo.listRecords({ repo: agent.assertDid, collection: OBSERVATION, limit: 100, cursor })
    for (const r of data.records) stored.set(r.uri, r)
    if (!(cursor = data.cursor)) break
  }
  same(stored.size, writers + 1, 'records')
  for (const d of done) {
    const { uri, cid } = stored.get(d.uri).value.supersedes
    same({ uri, cid }, d.target, d.uri)
  }
})

await check('the index has the chain, and no fork', async () => {
  const last = done.find((d) => !done.some((o) => o.target.uri === d.uri))
  for (let tries = 0; ; tries++) {
    const answer = await agent.fetchHandler(`/xrpc/garden.herbarium.getObservation?uri=${encodeURIComponent(first.uri)}`)
    const { observation } = await answer.json()
    if (observation?.chain.length === writers + 1) {
      same(observation.chain.head.uri, last.uri, 'head')
      same(observation.chain.stepsBehind, writers, 'steps behind')
      same(observation.chain.forked, false, 'forked')
      return
    }
    must(tries < 100, `the index has ${observation?.chain.length ?? 'nothing'} of ${writers + 1}`)
    await new Promise((r) => setTimeout(r, 100))
  }
})

finish()
