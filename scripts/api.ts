// `api.ts [--check]`: writes the reports of the public surface into `api/`, or compares the surface with them.
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import {
  CompilerState,
  Extractor,
  ExtractorConfig,
  ExtractorLogLevel,
  type IConfigFile,
  type IExtractorMessagesConfig,
} from '@microsoft/api-extractor'
import { differences, type Reports } from './api-differences.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const committed = join(root, 'api')

/** Every package that users import. `testing` serves this repository's tests, `onceward` is a program. */
const PACKAGES = readdirSync(join(root, 'packages')).filter(
  (name) => name !== 'testing' && name !== 'onceward',
)

const COMPILER = {
  compilerOptions: {
    ...{ target: 'es2024', lib: ['es2024', 'esnext.disposable'], types: ['node'] },
    ...{ module: 'nodenext', moduleResolution: 'nodenext', strict: true, skipLibCheck: true },
  },
}

const silent = { logLevel: ExtractorLogLevel.None }
const fails = { logLevel: ExtractorLogLevel.Error }

/** The report shows what a compiler sees. Doc comments are left to review, so remarks about them are not asked for. */
const MESSAGES: IExtractorMessagesConfig = {
  compilerMessageReporting: { default: fails },
  extractorMessageReporting: {
    default: fails,
    'ae-forgotten-export': silent,
    'ae-missing-release-tag': silent,
    'ae-unresolved-link': silent,
    'ae-undocumented': silent,
  },
  tsdocMessageReporting: { default: silent },
}

/** One configuration per entry of a package's `exports`. */
function configurationsOf(name: string, directory: string): readonly ExtractorConfig[] {
  const projectFolder = join(root, 'packages', name)
  const packageJsonFullPath = join(projectFolder, 'package.json')
  const packageJson = JSON.parse(readFileSync(packageJsonFullPath, 'utf8'))
  // A package that is only a command, such as create-onceward, has none.
  const entries: Readonly<Record<string, { readonly types: string }>> = packageJson.exports ?? {}
  return Object.entries(entries).map(([entry, { types }]) => {
    const mainEntryPointFilePath = join(projectFolder, types)
    const configObject: IConfigFile = {
      ...{ projectFolder, mainEntryPointFilePath, messages: MESSAGES, newlineKind: 'lf' },
      compiler: { overrideTsconfig: { ...COMPILER, files: [mainEntryPointFilePath] } },
      apiReport: {
        enabled: true,
        reportFileName: `${join(name, entry).replaceAll('/', '-')}.api.md`,
        reportFolder: directory,
        reportTempFolder: directory,
        // A type that is used but not exported stands there without `export`: users see its fields too.
        // The other entries of core use types that its index exports, so those stand in one report only.
        includeForgottenExports: name !== 'core' || entry === '.',
      },
      docModel: { enabled: false },
      dtsRollup: { enabled: false },
      tsdocMetadata: { enabled: false },
    }
    return ExtractorConfig.prepare({
      ...{ configObject, packageJson, packageJsonFullPath },
      configObjectFullPath: undefined,
    })
  })
}

/** Writes the report of every entry into a directory. */
function writeReports(directory: string): void {
  const configurations = PACKAGES.flatMap((name) => configurationsOf(name, directory))
  const [first, ...others] = configurations
  if (first === undefined) throw new Error('There is no package in packages/.')
  // One program for all entries parses the libraries once instead of ten times.
  const compilerState = CompilerState.create(first, {
    additionalEntryPoints: others.map(({ mainEntryPointFilePath }) => mainEntryPointFilePath),
  })
  for (const configuration of configurations) {
    const { errorCount } = Extractor.invoke(configuration, {
      ...{ compilerState, localBuild: true },
      messageCallback: (message) => {
        message.handled = message.logLevel !== ExtractorLogLevel.Error
      },
    })
    if (errorCount > 0) throw new Error(`There is no report ${configuration.reportFilePath}.`)
  }
}

const readReports = (directory: string): Reports =>
  new Map(readdirSync(directory).map((file) => [file, readFileSync(join(directory, file), 'utf8')]))

function main(mode: 'check' | 'write'): void {
  const directory = mkdtempSync(join(tmpdir(), 'onceward-api-'))
  try {
    writeReports(directory)
    mkdirSync(committed, { recursive: true })
    const [reports, surface] = [readReports(committed), readReports(directory)]
    if (mode === 'check') {
      const text = differences(reports, surface)
      if (text === '') return
      console.log(text)
      process.exitCode = 1
    } else {
      for (const file of reports.keys()) if (!surface.has(file)) rmSync(join(committed, file))
      for (const [file, text] of surface) writeFileSync(join(committed, file), text)
    }
  } finally {
    rmSync(directory, { recursive: true, force: true })
  }
}

if (import.meta.main) main(process.argv.includes('--check') ? 'check' : 'write')
