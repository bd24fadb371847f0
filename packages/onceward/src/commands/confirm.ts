import { createInterface } from 'node:readline/promises'

/** Asks on the terminal. Anything but yes is no. */
export async function saysYes(question: string): Promise<boolean> {
  const asked = createInterface({ input: process.stdin, output: process.stderr })
  try {
    const gone = new AbortController()
    // Ctrl-C or Ctrl-D.
    asked.once('close', () => gone.abort())
    const answer = await asked
      .question(`${question} [y/N] `, { signal: gone.signal })
      .catch(() => '')
    return /^y(es)?$/i.test(answer.trim())
  } finally {
    asked.close()
  }
}
