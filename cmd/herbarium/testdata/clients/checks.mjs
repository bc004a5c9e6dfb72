// How the programs in this folder report: one line per check, "ok" or "FAIL", and
// exit code 1 when one failed. A check that throws has failed.

/** Starts a list of checks. */
export function checks() {
  let failed = 0
  let passed = 0

  function report(what, problem) {
    if (problem === undefined) {
      passed++
      console.log(`ok    ${what}`)
    } else {
      failed++
      console.log(`FAIL  ${what}: ${problem}`)
    }
  }

  /** Runs a test: it passes unless it throws or answers false. Answers what the test answered. */
  async function check(what, test) {
    try {
      const result = await test()
      report(what, result === false ? 'not so' : undefined)
      return result
    } catch (err) {
      report(what, describe(err))
      return undefined
    }
  }

  /**
   * Runs a test that must be refused: with this HTTP status, or this error name,
   * and with a message that does what the last argument asks of it.
   */
  async function refused(what, expected, test, accepts = () => true) {
    let result
    try {
      result = await test()
    } catch (err) {
      const status = err.status ?? err.response?.status
      const name = err.error ?? err.name
      if (typeof expected === 'number' ? status !== expected : name !== expected) {
        return report(`${what} is refused`, `want ${expected}, got ${describe(err)}`)
      }
      if (!accepts(err.message)) {
        return report(`${what} is refused`, `not with such a message: ${err.message}`)
      }
      return report(`${what} is refused: ${expected}`)
    }
    report(`${what} is refused`, `it was allowed: ${JSON.stringify(result?.data ?? result)?.slice(0, 300)}`)
  }

  /** Prints the sum and ends the process. */
  function finish() {
    console.log(failed ? `${failed} of ${failed + passed} checks failed` : `all ${passed} checks passed`)
    process.exit(failed ? 1 : 0)
  }

  return { check, refused, report, finish }
}

function describe(err) {
  const parts = [err.status, err.error, err.message, err.cause?.message].filter((part) => part !== undefined && part !== '')
  return parts.length ? parts.join(' ') : String(err)
}

/** Throws unless condition holds. */
export function must(condition, message) {
  if (!condition) throw new Error(message)
}

/** Throws unless the two are the same text once they are written as JSON. */
export function same(got, want, what) {
  const [a, b] = [got, want].map((value) => JSON.stringify(value))
  must(a === b, `${what}: got ${a}, want ${b}`)
}
