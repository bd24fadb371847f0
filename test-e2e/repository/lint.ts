import { spawnSync } from 'node:child_process'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('../..', import.meta.url))
const packagesDirectory = join(root, 'packages')

/** Names of the directories in `packages`. */
export const packages: readonly string[] = readdirSync(packagesDirectory).filter((name) =>
  existsSync(join(packagesDirectory, name, 'package.json')),
)

const COMMANDS = {
  biome: ['lint', '--colors=off', '--max-diagnostics=none', 'packages'],
  oxlint: ['packages'],
  tsc: ['-p', 'tsconfig.test.json'],
} as const

/** What a tool with the repository's own rules says of files that exist only outside it; `''` when all is well. */
export function lint(tool: keyof typeof COMMANDS, files: Readonly<Record<string, string>>): string {
  const directory = mkdtempSync(join(tmpdir(), 'onceward-rules-'))
  const kept = ['biome.json', '.oxlintrc.json', '.gitignore', 'tsconfig.base.json']
  const copies = ['tsconfig.test.json', ...packages.flatMap(configurationOf)]
  const bin = join(root, 'node_modules/.bin')
  const env = { ...process.env, NO_COLOR: '1', PATH: `${bin}:${process.env['PATH']}` }
  try {
    for (const file of [...kept, ...copies]) cpSync(join(root, file), join(directory, file))
    symlinkSync(join(root, 'node_modules'), join(directory, 'node_modules'))
    for (const [file, text] of Object.entries(files)) {
      mkdirSync(dirname(join(directory, file)), { recursive: true })
      writeFileSync(join(directory, file), text)
    }
    const done = spawnSync(join(bin, tool), COMMANDS[tool], {
      cwd: directory,
      env,
      encoding: 'utf8',
    })
    return done.status === 0 ? '' : done.stdout + done.stderr
  } finally {
    rmSync(directory, { recursive: true, force: true })
  }
}

const configurationOf = (name: string): string[] => [
  `packages/${name}/package.json`,
  `packages/${name}/tsconfig.json`,
]
