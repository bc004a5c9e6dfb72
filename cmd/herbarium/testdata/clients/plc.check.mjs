#!/usr/bin/env node
// Checks plc.mjs with the client and the operations of @did-plc/lib: what the
// directory must accept, what it must refuse, and that @atproto/identity reads
// the documents that it serves. Exit code 1 when a check fails.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { P256Keypair, Secp256k1Keypair } from '@atproto/crypto'
import { IdResolver } from '@atproto/identity'
import * as plc from '@did-plc/lib'
import { checks } from './checks.mjs'

const { check, refused, finish } = checks()

const directory = spawn(process.execPath, [fileURLToPath(new URL('plc.mjs', import.meta.url)), '--until-stdin-ends'], {
  stdio: ['pipe', 'pipe', 'inherit'],
})
const [line] = await once(directory.stdout.setEncoding('utf8'), 'data')
const { url } = JSON.parse(line)
const client = new plc.Client(url)

const strong = await Secp256k1Keypair.create()
const weak = await P256Keypair.create()
const signing = await P256Keypair.create()
const rotationKeys = [strong.did(), weak.did()]
const genesis = { signingKey: signing.did(), handle: 'scout.example', pds: 'https://pds.example', rotationKeys }

let did
await check('a genesis operation is accepted', async () => {
  did = await client.createDid({ ...genesis, signer: weak })
  return (await client.getDocumentData(did)).alsoKnownAs[0] === 'at://scout.example'
})
await check('the document has the key as Multikey, and @atproto/identity reads it', async () => {
  const document = await (await fetch(`${url}/${did}`)).json()
  const resolved = await new IdResolver({ plcUrl: url }).did.resolveAtprotoData(did, true)
  return (
    document.verificationMethod[0].type === 'Multikey' &&
    document.verificationMethod[0].id === `${did}#atproto` &&
    resolved.signingKey === signing.did() &&
    resolved.pds === 'https://pds.example' &&
    resolved.handle === 'scout.example'
  )
})
await check('an update by a rotation key is accepted', async () => {
  await client.updateHandle(did, weak, 'renamed.example')
  return (await client.getDocumentData(did)).alsoKnownAs[0] === 'at://renamed.example'
})
await refused('an update by another key', 400, () => client.updateHandle(did, signing, 'stolen.example'))
await refused('a genesis operation under another DID', 400, async () => {
  const { op } = await plc.createOp({ ...genesis, signer: weak })
  await client.sendOperation(`did:plc:${'a'.repeat(24)}`, op)
})
await refused('a second genesis operation', 400, async () => {
  const { op } = await plc.createOp({ ...genesis, signer: weak })
  await client.sendOperation(did, op)
})
await refused('something that is no operation', 400, () => client.sendOperation(did, { type: 'plc_nonsense' }))
await check('a stronger key takes a change back, and the log says so', async () => {
  const first = (await client.getOperationLog(did))[0]
  const rescue = await plc.updateHandleOp(first, strong, 'rescued.example')
  await client.sendOperation(did, rescue)
  const audit = await client.getAuditableLog(did)
  await plc.validateOperationLog(did, await client.getOperationLog(did))
  return (
    audit.length === 3 &&
    audit.map((entry) => entry.nullified).join() === 'false,true,false' &&
    (await client.getDocumentData(did)).alsoKnownAs[0] === 'at://rescued.example'
  )
})
await check('updates at once are put in order: one of them wins', async () => {
  const last = await client.getLastOp(did)
  const rivals = await Promise.all(['a.example', 'b.example'].map((handle) => plc.updateHandleOp(last, strong, handle)))
  const results = await Promise.allSettled(rivals.map((op) => client.sendOperation(did, op)))
  return results.filter((result) => result.status === 'fulfilled').length === 1
})
await refused('an unknown DID', 404, () => client.getDocument(`did:plc:${'b'.repeat(24)}`))
await check('a tombstone ends it', async () => {
  await client.tombstone(did, strong)
  return (await fetch(`${url}/${did}`)).status === 410
})
await check('health', async () => (await fetch(`${url}/_health`)).ok)

directory.stdin.end()
await once(directory, 'exit')
finish()
