import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { afterEach, expect, test } from 'vitest'
import { copyExample } from './create.ts'

const folders: string[] = []
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true })
})

function folder(): string {
  const made = mkdtempSync(join(tmpdir(), 'create-onceward-'))
  folders.push(made)
  return made
}

/** As npm packs it. */
function pack(into: string, file: string, manifest: object): void {
  const body = Buffer.from(JSON.stringify(manifest))
  const header = Buffer.alloc(512)
  header.write('package/package.json')
  header.write(body.length.toString(8).padStart(11, '0'), 124)
  const padding = Buffer.alloc(512 - (body.length % 512))
  writeFileSync(join(into, file), gzipSync(Buffer.concat([header, body, padding])))
}

// Red before: npm ended with EOVERRIDE when `@onceward/testing` was installed beside them.
test('only what the packages of a project need is overridden', () => {
  const packages = folder()
  pack(packages, 'onceward-core-0.1.0.tgz', {})
  pack(packages, 'onceward-sqs-0.1.0.tgz', { peerDependencies: { '@onceward/core': '^0.1.0' } })
  pack(packages, 'onceward-testing-0.1.0.tgz', { dependencies: { '@onceward/core': '^0.1.0' } })
  const directory = folder()
  mkdirSync(join(directory, 'src'))
  const dependencies = { '@onceward/sqs': '*', pg: '^8' }
  writeFileSync(join(directory, 'package.json'), JSON.stringify({ name: 'x', dependencies }))
  const into = join(folder(), 'service')
  copyExample({ name: 'x', description: '', directory }, into, packages)
  const file = (name: string): string => `file:${join(packages, `onceward-${name}-0.1.0.tgz`)}`
  expect(JSON.parse(readFileSync(join(into, 'package.json'), 'utf8'))).toMatchObject({
    dependencies: { '@onceward/sqs': file('sqs'), pg: '^8' },
    overrides: { '@onceward/core': file('core') },
  })
  expect(readFileSync(join(into, 'package.json'), 'utf8')).not.toContain('testing')
})
