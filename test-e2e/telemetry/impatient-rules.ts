import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export const RULES: string = join(import.meta.dirname, '../../ops/alerts.yaml')

/** The rules of `ops/alerts.yaml` in a file of their own, with seconds instead of minutes, and kilobytes instead of gigabytes. */
export async function impatientRules(): Promise<AsyncDisposable & { readonly file: string }> {
  const directory = await mkdtemp(join(tmpdir(), 'onceward-alerts-'))
  const file = join(directory, 'alerts.yaml')
  await writeFile(file, impatient(await readFile(RULES, 'utf8')))
  return { file, [Symbol.asyncDispose]: () => rm(directory, { recursive: true }) }
}

function impatient(text: string): string {
  return text
    .replaceAll(/^( +for:) \w+$/gm, '$1 1s')
    .replaceAll('offset 7d', 'offset 5s')
    .replaceAll('offset 5m', 'offset 10s')
    .replaceAll('> 1e9', '> 1e4')
    .replaceAll('_age) > 300', '_age) > 1')
    .replaceAll('[5m]', '[10s]')
}
