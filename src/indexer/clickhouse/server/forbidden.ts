// Functions that a customer's query may not call on a ClickHouse server. Thread: any; data.
// They read other sources (files, URLs, dictionaries, other servers), or reveal server internals.
// The server forbids most of them as well: every query is read-only, and the user of
// `indexer.url` should have rights on `chain` only.

/** As a table only these functions are allowed; in expressions all except the forbidden ones. */
export const harmlessTableFunctions: ReadonlySet<string> = new Set([
  ...['numbers', 'numbers_mt', 'zeros', 'zeros_mt', 'generateseries', 'generate_series', 'values'],
])

/** In lower case. Includes table functions, because IN accepts them as tables. */
export const forbiddenFunctions: ReadonlySet<string> = new Set(
  `
  arrowflight azureblobstorage azureblobstoragecluster cluster clusterallreplicas cosn deltalake
  deltalakeazure deltalakecluster deltalakelocal deltalakes3 dictionary executable executablepool
  file filecluster filesystem fuzzjson fuzzquery gcs generaterandom hdfs hdfscluster hudi
  hudicluster hive iceberg icebergazure icebergazurecluster icebergcluster iceberghdfs
  iceberghdfscluster iceberglocal icebergs3 icebergs3cluster input jdbc loop merge
  mergetreeanalyzeindexes mergetreeindex mergetreeparts mergetreeprojection mongodb mysql
  odbc oss paimon paimonazure paimons3 postgresql prometheusquery prometheusqueryrange
  redis remote remotesecure s3 s3cluster sqlite timeseriesdata timeseriesmetrics timeseriesselector
  timeseriestags url urlcluster view viewexplain viewifpermitted ytsaurus

  globalin globalinignoreset globalnotin globalnotinignoreset
  globalnotnullin globalnotnullinignoreset
  globalnullin globalnullinignoreset inignoreset notin notinignoreset notnullin notnullinignoreset
  nullin nullinignoreset

  joinget joingetornull hascolumnintable modelevaluate catboostevaluate evalmlmethod
  filesystemavailable filesystemcapacity filesystemfree filesystemunreserved
  addresstoline addresstolinewithinlines addresstosymbol demangle
  buildid connectionid connection_id currentprofiles currentquerycontext currentroles currentuser
  current_user defaultprofiles defaultroles displayname enabledprofiles enabledroles fqdn
  fullhostname getclienthttpheader getmacro getmaxtablenamelengthfordatabase getmergetreesetting
  getoskernelversion getscalar getserverport getserversetting getsetting getsettingordefault
  hostname initialquery_id initialqueryid initialquerystarttime partitionid queryid query_id
  regionhierarchy regionin regiontoarea regiontocity regiontocontinent regiontocountry
  regiontodistrict regiontoname regiontopopulation regiontotopcontinent
  serveruuid session_user showcertificate system_user tcpport transactionid
  transactionlatestsnapshot transactionoldestsnapshot uptime user zookeepersessionuptime
  aigenerate aiclassify aiextract aitranslate generateembedding httpget
  `
    .trim()
    .split(/\s+/),
)

/** Function families by prefix. */
export const forbiddenPrefixes = [
  'dictget',
  'dicthas',
  'dictisin',
  'paimon',
  'iceberg',
  'deltalake',
]
