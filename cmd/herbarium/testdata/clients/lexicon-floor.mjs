// Judges records by @atproto/lexicon: lines of {collection, record} from the
// file that is the second argument, against the lexicons in the first; prints
// for each a line, "" for valid or what is wrong.
import { readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Lexicons, jsonToLex } from '@atproto/lexicon'

const [dir, records, verdicts] = process.argv.slice(2)
const lexicons = new Lexicons()
for (const name of readdirSync(dir)) lexicons.add(JSON.parse(readFileSync(join(dir, name), 'utf8')))

const out = []
for (const line of readFileSync(records, 'utf8').split('\n')) {
  if (line === '') continue
  const { collection, record } = JSON.parse(line)
  try {
    lexicons.assertValidRecord(collection, jsonToLex(record))
    out.push('')
  } catch (err) {
    out.push(String(err.message).replaceAll('\n', ' ') || 'invalid')
  }
}
writeFileSync(verdicts, out.join('\n') + '\n')
