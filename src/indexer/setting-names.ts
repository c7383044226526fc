// Names of ClickHouse's settings that a query may send, by what becomes of them. Data
// only. Settings that name a file, a server or SQL are in none of the lists.

/** Settings of the output, with their initial value; the embedded engine knows no other yet. */
export const outputSettings = `
  output_format_json_array_of_rows 0
  output_format_json_validate_utf8 0 output_format_json_pretty_print 1
  output_format_json_skip_null_value_in_named_tuples 0
  output_format_json_map_as_array_of_tuples 0 output_format_csv_crlf_end_of_line 0
  output_format_csv_serialize_tuple_into_separate_columns 1
  output_format_tsv_crlf_end_of_line 0
  output_format_write_statistics 1 output_format_decimal_trailing_zeros 0
  output_format_pretty_max_rows 1000 output_format_pretty_max_column_pad_width 250
  output_format_pretty_max_value_width 10000 output_format_pretty_color auto
  output_format_pretty_grid_charset UTF-8 output_format_pretty_row_numbers 1
  output_format_pretty_highlight_digit_groups 1
  output_format_pretty_display_footer_column_names 1
  output_format_native_encode_types_in_binary_format 0
  output_format_binary_encode_types_in_binary_format 0
  output_format_native_write_json_as_string 0 output_format_binary_write_json_as_string 0
  output_format_arrow_string_as_string 1 output_format_arrow_low_cardinality_as_dictionary 0
  output_format_arrow_compression_method lz4_frame
  output_format_parquet_string_as_string 1 output_format_parquet_compression_method zstd
  output_format_parquet_row_group_size 1000000 output_format_parquet_version 2.latest
  output_format_parquet_fixed_string_as_fixed_byte_array 1
  bool_true_representation true bool_false_representation false
`
/** Settings of the query's meaning; the embedded engine implements the values after the name. */
export const meaningSettings = `
  join_use_nulls 0|1 extremes 0 group_by_use_nulls 0 transform_null_in 0 union_default_mode ALL|
  aggregate_functions_null_for_empty 0 any_join_distinct_right_table_keys 0 cast_keep_nullable 0
  data_type_default_nullable 0 decimal_check_overflow 1 empty_result_for_aggregation_by_empty_set 0
  enable_order_by_all 1 enable_positional_arguments 0|1 join_any_take_last_row 0
  asterisk_include_alias_columns 0 asterisk_include_materialized_columns 0
  prefer_column_name_to_alias 0 session_timezone UTC| totals_mode after_having_auto
  force_grouping_standard_compatibility 1 distinct_overflow_mode throw
  group_by_overflow_mode throw join_overflow_mode throw set_overflow_mode throw
  sort_overflow_mode throw count_distinct_implementation uniqExact
  joined_subquery_requires_alias 0|1
`
/** Ignored: they affect how a server works and not its result, or are fixed here. */
export const harmlessSettings = `
  http_headers_progress_interval_ms
  readonly session_id session_timeout quota_key buffer_size
  cancel_http_readonly_queries_on_client_close add_http_cors_header stacktrace
  http_zlib_compression_level http_response_buffer_size http_make_head_request http_max_uri_size
  connect_timeout receive_timeout send_timeout idle_connection_timeout http_connection_timeout
  http_receive_timeout http_send_timeout poll_interval max_threads max_query_size
  max_ast_depth max_ast_elements max_rows_to_read max_bytes_to_read read_overflow_mode
  timeout_overflow_mode max_estimated_execution_time max_memory_usage_for_user
  max_network_bandwidth max_rows_to_group_by max_bytes_before_external_group_by
  use_uncompressed_cache max_bytes_before_external_sort max_concurrent_queries_for_user priority
  workload log_queries log_comment log_query_settings log_queries_probability final
  use_query_cache query_cache_ttl load_balancing skip_unavailable_shards date_time_input_format
  replace_running_query_max_wait_ms async_insert wait_for_async_insert network_compression_method
  network_zstd_compression_level max_read_buffer_size max_insert_block_size
  preferred_block_size_bytes compile_expressions compile_aggregate_expressions enable_analyzer
  send_logs_level
  interactive_delay min_bytes_to_use_direct_io low_cardinality_allow_in_native_format
  select_sequential_consistency prefer_localhost_replica distributed_product_mode
`
