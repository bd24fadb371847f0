import { readdirSync, readFileSync } from 'node:fs'
import { join, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import { BROKER_NAMES } from '../test-e2e/brokers/index.ts'
import { code, table } from './docs-table.ts'

const packages: string = fileURLToPath(new URL('../packages', import.meta.url))

/** Comments and blank lines do not count, as in the rule about the length of files. */
function linesOf(file: string): number {
  const code = readFileSync(file, 'utf8').replaceAll(/\/\*[\s\S]*?\*\//g, '')
  return code.split('\n').filter((line) => !/^\s*(?:\/\/.*)?$/.test(line)).length
}

/** In full hundreds, so that the page changes with an adapter only when its size does. */
function hundreds(files: readonly string[]): string {
  const lines = files.reduce((sum, file) => sum + linesOf(file), 0)
  return (Math.ceil(lines / 100) * 100).toLocaleString('en')
}

/** How much code each adapter has, without tests. */
export function adapterSizes(): string {
  const rows = BROKER_NAMES.map((name) => {
    const files = readdirSync(join(packages, name, 'src'), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile() && /(?<!\.test|\.test-d)\.ts$/.test(entry.name))
      .map((entry) => join(entry.parentPath, entry.name))
      .filter((file) => !file.includes(`${sep}fixtures${sep}`))
    const clients = files.filter((file) => file.includes(`${sep}clients${sep}`))
    const others = files.filter((file) => !clients.includes(file))
    return [code(`packages/${name}`), hundreds(others), hundreds(clients)]
  })
  return table(['Adapter', 'Lines of code at most', 'and in `clients/`'], rows)
}
